(()=>{var Me,D,br,Fo,Mt,gr,wr,xr,_n,ye,Jt,kr,bn,yn,vn,Ro,we={},xe=[],qo=/acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i,$e=Array.isArray;function gt(t,e){
for(var n in e)t[n]=e[n];return t}function wn(t){t&&t.parentNode&&t.parentNode.removeChild(t)}function Lo(t,e,n){var r,i,o,a={};for(o in e)o=="key"?r=e[o]:o=="r\
ef"?i=e[o]:a[o]=e[o];if(arguments.length>2&&(a.children=arguments.length>3?Me.call(arguments,2):n),typeof t=="function"&&t.defaultProps!=null)for(o in t.defaultProps)
a[o]===void 0&&(a[o]=t.defaultProps[o]);return ve(t,a,r,i,null)}function ve(t,e,n,r,i){var o={type:t,props:e,key:n,ref:r,__k:null,__:null,__b:0,__e:null,__c:null,
constructor:void 0,__v:i??++br,__i:-1,__u:0};return i==null&&D.vnode!=null&&D.vnode(o),o}function F(t){return t.children}function be(t,e){this.props=t,this.context=e}function At(t,e){if(e==null)return t.__?At(t.__,t.__i+1):null;for(var n;e<t.__k.length;e++)
if((n=t.__k[e])!=null&&n.__e!=null)return n.__e;return typeof t.type=="function"?At(t):null}function Bo(t){if(t.__P&&t.__d){var e=t.__v,n=e.__e,r=[],i=[],o=gt({},
e);o.__v=e.__v+1,D.vnode&&D.vnode(o),xn(t.__P,o,e,t.__n,t.__P.namespaceURI,32&e.__u?[n]:null,r,n??At(e),!!(32&e.__u),i),o.__v=e.__v,o.__.__k[o.__i]=o,Sr(r,o,i),
e.__e=e.__=null,o.__e!=n&&Mr(o)}}function Mr(t){if((t=t.__)!=null&&t.__c!=null)return t.__e=t.__c.base=null,t.__k.some(function(e){if(e!=null&&e.__e!=null)return t.
__e=t.__c.base=e.__e}),Mr(t)}function _r(t){(!t.__d&&(t.__d=!0)&&Mt.push(t)&&!ke.__r++||gr!=D.debounceRendering)&&((gr=D.debounceRendering)||wr)(ke)}function ke(){
try{for(var t,e=1;Mt.length;)Mt.length>e&&Mt.sort(xr),t=Mt.shift(),e=Mt.length,Bo(t)}finally{Mt.length=ke.__r=0}}function $r(t,e,n,r,i,o,a,s,l,u,h){var d,f,m,g,
w,b,_=r&&r.__k||xe,M=e.length;for(l=Ho(n,e,_,l,M),d=0;d<M;d++)(m=n.__k[d])!=null&&(f=m.__i!=-1&&_[m.__i]||we,m.__i=d,b=xn(t,m,f,i,o,a,s,l,u,h),g=m.__e,m.ref&&f.
ref!=m.ref&&(f.ref&&kn(f.ref,null,m),h.push(m.ref,m.__c||g,m)),w==null&&g!=null&&(w=g),4&m.__u?(l=Nr(m,l,t),f.__e&&(f.__e=null)):typeof m.type=="function"&&b!==
void 0?l=b:g&&(l=g.nextSibling),m.__u&=-7);return n.__e=w,l}function Ho(t,e,n,r,i){var o,a,s,l,u,h=n.length,d=h,f=0;for(t.__k=new Array(i),o=0;o<i;o++)(a=e[o])!=
null&&typeof a!="boolean"&&typeof a!="function"?(typeof a=="string"||typeof a=="number"||typeof a=="bigint"||a.constructor==String?a=t.__k[o]=ve(null,a,null,null,
null):$e(a)?a=t.__k[o]=ve(F,{children:a},null,null,null):a.constructor===void 0&&a.__b>0?a=t.__k[o]=ve(a.type,a.props,a.key,a.ref?a.ref:null,a.__v):t.__k[o]=a,l=
o+f,a.__=t,a.__b=t.__b+1,s=null,(u=a.__i=Uo(a,n,l,d))!=-1&&(d--,(s=n[u])&&(s.__u|=2)),s==null||s.__v==null?(u==-1&&(i>h?f--:i<h&&f++),typeof a.type!="function"&&
(a.__u|=4)):u!=l&&(u==l-1?f--:u==l+1?f++:(u>l?f--:f++,a.__u|=4))):t.__k[o]=null;if(d)for(o=0;o<h;o++)(s=n[o])!=null&&(2&s.__u)==0&&(s.__e==r&&(r=At(s)),Tr(s,s));
return r}function Nr(t,e,n){var r,i;if(typeof t.type=="function"){for(r=t.__k,i=0;r&&i<r.length;i++)r[i]&&(r[i].__=t,e=Nr(r[i],e,n));return e}t.__e!=e&&(e&&t.type&&
!e.parentNode&&(e=At(t)),e=n.insertBefore(t.__e,e||null));do e=e&&e.nextSibling;while(e!=null&&e.nodeType==8);return e}function Uo(t,e,n,r){var i,o,a,s=t.key,l=t.type,u=e[n],h=u!=null&&(2&u.__u)==0;if(u===null&&s==null||h&&s==u.key&&l==u.type)return n;if(r>(h?1:0)){for(i=n-1,o=n+
1;i>=0||o<e.length;)if((u=e[a=i>=0?i--:o++])!=null&&(2&u.__u)==0&&s==u.key&&l==u.type)return a}return-1}function yr(t,e,n){e[0]=="-"?t.setProperty(e,n??""):t[e]=
n==null?"":typeof n!="number"||qo.test(e)?n:n+"px"}function _e(t,e,n,r,i){var o,a;t:if(e=="style")if(typeof n=="string")t.style.cssText=n;else{if(typeof r=="str\
ing"&&(t.style.cssText=r=""),r)for(e in r)n&&e in n||yr(t.style,e,"");if(n)for(e in n)r&&n[e]==r[e]||yr(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")o=e!=(e=e.replace(
kr,"$1")),a=e.toLowerCase(),e=a in t||e=="onFocusOut"||e=="onFocusIn"?a.slice(2):e.slice(2),t.l||(t.l={}),t.l[e+o]=n,n?r?n[Jt]=r[Jt]:(n[Jt]=bn,t.addEventListener(
e,o?vn:yn,o)):t.removeEventListener(e,o?vn:yn,o);else{if(i=="http://www.w3.org/2000/svg")e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&
e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{t[e]=n??"";break t}catch{}
typeof n=="function"||(n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(e,e=="popover"&&n==1?"":n))}}function vr(t){return function(e){if(this.l){
var n=this.l[e.type+t];if(e[ye]==null)e[ye]=bn++;else if(e[ye]<n[Jt])return;return n(D.event?D.event(e):e)}}}function xn(t,e,n,r,i,o,a,s,l,u){var h,d,f,m,g,w,b,
_,M,v,N,O,T,q,K,J,B=e.type;if(e.constructor!==void 0)return null;128&n.__u&&(l=!!(32&n.__u),o=[s=e.__e=n.__e]),(h=D.__b)&&h(e);t:if(typeof B=="function"){d=a.length;
try{if(M=e.props,v=B.prototype&&B.prototype.render,N=(h=B.contextType)&&r[h.__c],O=h?N?N.props.value:h.__:r,n.__c?_=(f=e.__c=n.__c).__=f.__E:(v?e.__c=f=new B(M,
O):(e.__c=f=new be(M,O),f.constructor=B,f.render=Xo),N&&N.sub(f),f.state||(f.state={}),f.__n=r,m=f.__d=!0,f.__h=[],f._sb=[]),v&&f.__s==null&&(f.__s=f.state),v&&
B.getDerivedStateFromProps!=null&&(f.__s==f.state&&(f.__s=gt({},f.__s)),gt(f.__s,B.getDerivedStateFromProps(M,f.__s))),g=f.props,w=f.state,f.__v=e,m)v&&B.getDerivedStateFromProps==
null&&f.componentWillMount!=null&&f.componentWillMount(),v&&f.componentDidMount!=null&&f.__h.push(f.componentDidMount);else{if(v&&B.getDerivedStateFromProps==null&&
M!==g&&f.componentWillReceiveProps!=null&&f.componentWillReceiveProps(M,O),e.__v==n.__v||!f.__e&&f.shouldComponentUpdate!=null&&f.shouldComponentUpdate(M,f.__s,
O)===!1){e.__v!=n.__v&&(f.props=M,f.state=f.__s,f.__d=!1),e.__e=n.__e,e.__k=n.__k,e.__k.some(function(j){j&&(j.__=e)}),xe.push.apply(f.__h,f._sb),f._sb=[],f.__h.
length&&a.push(f),s=At(n);break t}f.componentWillUpdate!=null&&f.componentWillUpdate(M,f.__s,O),v&&f.componentDidUpdate!=null&&f.__h.push(function(){f.componentDidUpdate(
g,w,b)})}if(f.context=O,f.props=M,f.__P=t,f.__e=!1,T=D.__r,q=0,v)f.state=f.__s,f.__d=!1,T&&T(e),h=f.render(f.props,f.state,f.context),xe.push.apply(f.__h,f._sb),
f._sb=[];else do f.__d=!1,T&&T(e),h=f.render(f.props,f.state,f.context),f.state=f.__s;while(f.__d&&++q<25);f.state=f.__s,f.getChildContext!=null&&(r=gt(gt({},r),
f.getChildContext())),v&&!m&&f.getSnapshotBeforeUpdate!=null&&(b=f.getSnapshotBeforeUpdate(g,w)),K=h!=null&&h.type===F&&h.key==null?Er(h.props.children):h,s=$r(
t,$e(K)?K:[K],e,n,r,i,o,a,s,l,u),f.base=e.__e,e.__u&=-161,f.__h.length&&a.push(f),_&&(f.__E=f.__=null)}catch(j){if(a.length=d,e.__v=null,l||o!=null){if(j.then){
for(e.__u|=l?160:128;s&&s.nodeType==8&&s.nextSibling;)s=s.nextSibling;o!=null&&(o[o.indexOf(s)]=null),e.__e=s}else if(o!=null)for(J=o.length;J--;)wn(o[J])}else e.
__e=n.__e;e.__k==null&&(e.__k=n.__k||[]),j.then||Ar(e),D.__e(j,e,n)}}else o==null&&e.__v==n.__v?(e.__k=n.__k,e.__e=n.__e):s=e.__e=Vo(n.__e,e,n,r,i,o,a,l,u);return(h=
D.diffed)&&h(e),128&e.__u?void 0:s}function Ar(t){t&&(t.__c&&(t.__c.__e=!0),t.__k&&t.__k.some(Ar))}function Sr(t,e,n){for(var r=0;r<n.length;r++)kn(n[r],n[++r],
n[++r]);D.__c&&D.__c(e,t),t.some(function(i){try{t=i.__h,i.__h=[],t.some(function(o){o.call(i)})}catch(o){D.__e(o,i.__v)}})}function Er(t){return typeof t!="obj\
ect"||t==null||t.__b>0?t:$e(t)?t.map(Er):t.constructor!==void 0?null:gt({},t)}function Vo(t,e,n,r,i,o,a,s,l){var u,h,d,f,m,g,w,b=n.props||we,_=e.props,M=e.type;
if(M=="svg"?i="http://www.w3.org/2000/svg":M=="math"?i="http://www.w3.org/1998/Math/MathML":i||(i="http://www.w3.org/1999/xhtml"),o!=null){for(u=0;u<o.length;u++)
if((m=o[u])&&"setAttribute"in m==!!M&&(M?m.localName==M:m.nodeType==3)){t=m,o[u]=null;break}}if(t==null){if(M==null)return document.createTextNode(_);t=document.
createElementNS(i,M,_.is&&_),s&&(D.__m&&D.__m(e,o),s=!1),o=null}if(M==null)b===_||s&&t.data==_||(t.data=_);else{if(o=M=="textarea"&&_.defaultValue!=null?null:o&&
Me.call(t.childNodes),!s&&o!=null)for(b={},u=0;u<t.attributes.length;u++)b[(m=t.attributes[u]).name]=m.value;for(u in b)m=b[u],u=="dangerouslySetInnerHTML"?d=m:
u=="children"||u in _||u=="value"&&"defaultValue"in _||u=="checked"&&"defaultChecked"in _||_e(t,u,null,m,i);for(u in _)m=_[u],u=="children"?f=m:u=="dangerouslyS\
etInnerHTML"?h=m:u=="value"?g=m:u=="checked"?w=m:s&&typeof m!="function"||b[u]===m||_e(t,u,m,b[u],i);if(h)s||d&&(h.__html==d.__html||h.__html==t.innerHTML)||(t.
innerHTML=h.__html),e.__k=[];else if(d&&(t.innerHTML=""),$r(e.type=="template"?t.content:t,$e(f)?f:[f],e,n,r,M=="foreignObject"?"http://www.w3.org/1999/xhtml":i,
o,a,o?o[0]:n.__k&&At(n,0),s,l),o!=null)for(u=o.length;u--;)wn(o[u]);s&&M!="textarea"||(u="value",M=="progress"&&g==null?t.removeAttribute("value"):g!=null&&(g!==
t[u]||M=="progress"&&!g||M=="option"&&g!=b[u])&&_e(t,u,g,b[u],i),u="checked",w!=null&&w!=t[u]&&_e(t,u,w,b[u],i))}return t}function kn(t,e,n){try{if(typeof t=="f\
unction"){var r=typeof t.__u=="function";r&&t.__u(),r&&e==null||(t.__u=t(e))}else t.current=e}catch(i){D.__e(i,n)}}function Tr(t,e,n){var r,i;if(D.unmount&&D.unmount(
t),(r=t.ref)&&(r.current&&r.current!=t.__e||kn(r,null,e)),(r=t.__c)!=null){if(r.componentWillUnmount)try{r.componentWillUnmount()}catch(o){D.__e(o,e)}r.base=r.__P=
r.__n=null}if(r=t.__k)for(i=0;i<r.length;i++)r[i]&&Tr(r[i],e,n||typeof t.type!="function");n||wn(t.__e),t.__c=t.__=t.__e=void 0}function Xo(t,e,n){return this.constructor(
t,n)}function Cr(t,e,n){var r,i,o,a;e==document&&(e=document.documentElement),D.__&&D.__(t,e),i=(r=typeof n=="function")?null:n&&n.__k||e.__k,o=[],a=[],xn(e,t=(!r&&
n||e).__k=Lo(F,null,[t]),i||we,we,e.namespaceURI,!r&&n?[n]:i?null:e.firstChild?Me.call(e.childNodes):null,o,!r&&n?n:i?i.__e:e.firstChild,r,a),Sr(o,t,a),t.props.
children=null}Me=xe.slice,D={__e:function(t,e,n,r){for(var i,o,a;e=e.__;)if((i=e.__c)&&!i.__)try{if((o=i.constructor)&&o.getDerivedStateFromError!=null&&(i.setState(o.getDerivedStateFromError(
t)),a=i.__d),i.componentDidCatch!=null&&(i.componentDidCatch(t,r||{}),a=i.__d),a)return i.__E=i}catch(s){t=s}throw t}},br=0,Fo=function(t){return t!=null&&t.constructor===
void 0},be.prototype.setState=function(t,e){var n;n=this.__s!=null&&this.__s!=this.state?this.__s:this.__s=gt({},this.state),typeof t=="function"&&(t=t(gt({},n),
this.props)),t&&gt(n,t),t!=null&&this.__v&&(e&&this._sb.push(e),_r(this))},be.prototype.forceUpdate=function(t){this.__v&&(this.__e=!0,t&&this.__h.push(t),_r(this))},
be.prototype.render=F,Mt=[],wr=typeof Promise=="function"?Promise.prototype.then.bind(Promise.resolve()):setTimeout,xr=function(t,e){return t.__v.__b-e.__v.__b},
ke.__r=0,_n=Math.random().toString(8),ye="__d"+_n,Jt="__a"+_n,kr=/(PointerCapture)$|Capture$/i,bn=0,yn=vr(!1),vn=vr(!0),Ro=0;var jt,U,Mn,Ir,Ae=0,Lr=[],V=D,zr=V.__b,Or=V.__r,Pr=V.diffed,Dr=V.__c,Fr=V.unmount,Rr=V.__;function Nn(t,e){V.__h&&V.__h(U,t,Ae||e),Ae=0;var n=U.__H||(U.__H={__:[],
__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function Q(t){return Ae=1,Wo(Hr,t)}function Wo(t,e,n){var r=Nn(jt++,2);if(r.t=t,!r.__c&&(r.__=[n?n(e):Hr(void 0,
e),function(s){var l=r.__N?r.__N[0]:r.__[0],u=r.t(l,s);l!==u&&(r.__N=[u,r.__[1]],r.__c.setState({}))}],r.__c=U,!U.__f)){var i=function(s,l,u){if(!r.__c.__H)return!0;
var h=!1,d=r.__c.props!==s;if(r.__c.__H.__.some(function(m){if(m.__N){h=!0;var g=m.__[0];m.__=m.__N,m.__N=void 0,g!==m.__[0]&&(d=!0)}}),o){var f=o.call(this,s,l,
u);return h?f||d:f}return!h||d};U.__f=!0;var o=U.shouldComponentUpdate,a=U.componentWillUpdate;U.componentWillUpdate=function(s,l,u){if(this.__e){var h=o;o=void 0,
i(s,l,u),o=h}a&&a.call(this,s,l,u)},U.shouldComponentUpdate=i}return r.__N||r.__}function te(t,e){var n=Nn(jt++,3);!V.__s&&Br(n.__H,e)&&(n.__=t,n.u=e,U.__H.__h.
push(n))}function Se(t){return Ae=5,lt(function(){return{current:t}},[])}function lt(t,e){var n=Nn(jt++,7);return Br(n.__H,e)&&(n.__=t(),n.__H=e,n.__h=t),n.__}function Go(){for(var t;t=Lr.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(Ne),e.__h.some($n),e.__h=[]}catch(n){e.__h=[],V.__e(n,t.__v)}}}V.__b=function(t){U=
null,zr&&zr(t)},V.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),Rr&&Rr(t,e)},V.__r=function(t){Or&&Or(t),jt=0;var e=(U=t.__c).__H;e&&(Mn===U?(e.__h=[],
U.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})):(e.__h.some(Ne),e.__h.some($n),e.__h=[],jt=0)),Mn=U},V.diffed=function(t){Pr&&Pr(t);var e=t.
__c;e&&e.__H&&(e.__H.__h.length&&(Lr.push(e)!==1&&Ir===V.requestAnimationFrame||((Ir=V.requestAnimationFrame)||Yo)(Go)),e.__H.__.some(function(n){n.u&&(n.__H=n.
u,n.u=void 0)})),Mn=U=null},V.__c=function(t,e){e.some(function(n){try{n.__h.some(Ne),n.__h=n.__h.filter(function(r){return!r.__||$n(r)})}catch(r){e.some(function(i){
i.__h&&(i.__h=[])}),e=[],V.__e(r,n.__v)}}),Dr&&Dr(t,e)},V.unmount=function(t){Fr&&Fr(t);var e,n=t.__c;n&&n.__H&&(n.__H.__.some(function(r){try{Ne(r)}catch(i){e=
i}}),n.__H=void 0,e&&V.__e(e,n.__v))};var qr=typeof requestAnimationFrame=="function";function Yo(t){var e,n=function(){clearTimeout(r),qr&&cancelAnimationFrame(
e),setTimeout(t)},r=setTimeout(n,35);qr&&(e=requestAnimationFrame(n))}function Ne(t){var e=U,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),U=e}function $n(t){
var e=U;t.__c=t.__(),U=e}function Br(t,e){return!t||t.length!==e.length||e.some(function(n,r){return n!==t[r]})}function Hr(t,e){return typeof e=="function"?e(t):
e}var Ko=/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu,$=t=>String(t).replace(Ko,e=>`\\u${e.codePointAt(0).toString(
16).padStart(4,"0")}`);function z(t,e=48){let n=$(t);if(n.length<=e)return n;let r=Math.ceil((e-1)*.6);return`${n.slice(0,r)}\u2026${n.slice(n.length-(e-1-r))}`}
var C=t=>t==null?"":t.toLocaleString("en-US");function P(t){return t==null?"":t<1e4?`${C(t)} B`:t<1e6?`${(t/1e3).toFixed(1)} kB`:`${(t/1e6).toFixed(1)} MB`}function $t(t){
if(t==null)return"";for(let[e,n]of[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]])if(t>=e)return`${(t/e).toPrecision(3)} ${n}`;return`${Math.round(t)} ns`}var _t=(t,e)=>t.
unit==="ns"?$t(e):`${C(e)} instr.`,ot=(t,e=1)=>t==null||!isFinite(t)?"":`${(100*t).toFixed(e)} %`,Rt=t=>t===null||!isFinite(t)?"":`${t>0?"+":""}${(100*t).toFixed(
1)} %`,L=t=>t==null?"":t===0?"0":Math.abs(t)>=.001&&Math.abs(t)<1e5?String(Number(t.toPrecision(4))):t.toExponential(2),X=t=>t.sources.length?t.sources.join(", "):
t.name,St=t=>`${t.dtype}[${t.shape===null?"\u2026":t.shape.join(", ")}]`;function An(t){let e=t==null?"":typeof t=="number"?String(t):String(t).replace(/^[=+\-@\t\r]/,
"'$&");return/[",\r\n]/.test(e)?`"${e.replaceAll('"','""')}"`:e}var Qo=0;function c(t,e,n,r,i,o){e||(e={});var a,s,l=e;if("ref"in l)for(s in l={},e)s=="ref"?a=e[s]:l[s]=e[s];var u={type:t,props:l,key:n,ref:a,__k:null,__:null,__b:0,__e:null,
__c:null,constructor:void 0,__v:--Qo,__i:-1,__u:0,__source:i,__self:o};if(typeof t=="function"&&(a=t.defaultProps))for(s in a)l[s]===void 0&&(l[s]=a[s]);return D.
vnode&&D.vnode(u),u}function Y({caption:t,columns:e,rows:n,first:r,words:i,onPick:o,picked:a}){let[s,l]=Q(r??{column:0,down:!1}),[u,h]=Q(""),[d,f]=Q(""),m=lt(()=>{let b=u.toLowerCase(),
_=b?n.filter(N=>e.some(O=>String(O.value(N)??"").toLowerCase().includes(b))):n,{value:M}=e[s.column],v=s.down?-1:1;return[..._].sort((N,O)=>v*Zo(M(N),M(O)))},[n,
e,s,u]),g=()=>[e.map(b=>An(b.name)),...m.map(b=>e.map(_=>An(_.value(b))))].map(b=>b.join(",")).join(`\r
`);return c("div",{class:"tabled",children:[c("div",{class:"tools",children:[c("label",{children:["Filter ",c("input",{type:"search",value:u,onInput:b=>h(b.currentTarget.
value)})]}),c("button",{type:"button",onClick:async()=>f(await Jo(g())?`${m.length} rows copied`:"the browser does not let this page copy"),children:"Copy as CS\
V"}),c("span",{class:"note","aria-live":"polite",children:d||(u?`${m.length} of ${n.length}`:i??"")})]}),c("div",{class:"scroll",tabIndex:0,role:"region","aria-\
label":t,children:c("table",{children:[c("caption",{class:"unseen",children:t}),c("thead",{children:c("tr",{children:e.map((b,_)=>c("th",{scope:"col",class:b.number?
"number":"","aria-sort":s.column===_?s.down?"descending":"ascending":"none",children:c("button",{type:"button",onClick:()=>l({column:_,down:s.column===_?!s.down:
!!b.number&&_>0}),children:[b.name,c("span",{"aria-hidden":"true",children:s.column===_?s.down?" \u25BE":" \u25B4":""})]})},_))})}),c("tbody",{children:m.map((b,_)=>c(
"tr",{class:a!==void 0&&a===b.index?"picked":"",children:e.map((M,v)=>c("td",{class:M.number?"number":"text",children:M.pick&&o?c("button",{type:"button",class:"\
link",onClick:()=>o(b),children:Ur(M,b)}):Ur(M,b)},v))},b.key??b.index??_))})]})})]})}var Ur=(t,e)=>t.show?t.show(e):String(t.value(e)??"");function Zo(t,e){let[
n,r]=[t??-1/0,e??-1/0];return typeof n=="number"&&typeof r=="number"?n-r||0:String(t??"").localeCompare(String(e??""),"en",{numeric:!0})}async function Jo(t){try{
return await navigator.clipboard.writeText(t),!0}catch{let e=document.body.appendChild(Object.assign(document.createElement("textarea"),{value:t}));e.select();let n=document.
execCommand("copy");return e.remove(),n}}function Vr({report:t}){return c(F,{children:[t.boards.length>0&&c("section",{class:"card",children:[c("h2",{children:"Boards"}),c(Y,{caption:"Boards",rows:t.boards.
map((e,n)=>({...e,key:n})),first:{column:0,down:!1},columns:[{name:"board",value:e=>e.board},{name:"core",value:e=>e.target},{name:"fits",value:e=>e.fits?"fits":
"does not fit",show:e=>c("span",{class:e.fits?"good":"bad",children:e.fits?"fits":"does not fit"})},{name:"flash",value:e=>e.flash_bytes,show:e=>`${P(e.flash_bytes)}\
 of ${P(e.flash_of_board)}`,number:!0},{name:"RAM",value:e=>e.ram_bytes,show:e=>`${P(e.ram_bytes)} of ${P(e.ram_of_board)}`,number:!0},{name:"stack",value:e=>e.
stack_bytes??null,show:e=>P(e.stack_bytes),number:!0},{name:"instructions",value:e=>e.instructions??null,show:e=>C(e.instructions),number:!0},{name:"ms",value:e=>e.
estimated_milliseconds??null,show:e=>e.estimated_milliseconds?Number(e.estimated_milliseconds.toPrecision(3)):"",number:!0},{name:"\xB5J",value:e=>e.estimated_microjoules??
null,show:e=>e.estimated_microjoules?Number(e.estimated_microjoules.toPrecision(3)):"",number:!0}]}),c("p",{class:"note",children:"Flash, RAM, stack and instruc\
tions are measured on an emulated core; milliseconds and microjoules are estimates from the boards' data sheets."})]}),t.targets.length>0&&c("section",{class:"c\
ard",children:[c("h2",{children:"Targets"}),c(Y,{caption:"Targets",rows:t.targets.map((e,n)=>({...e,key:n})),columns:[{name:"target",value:e=>e.target,show:e=>$(
e.target)},{name:"size",value:e=>e.bytes,show:e=>P(e.bytes),number:!0},{name:"weights",value:e=>e.weights_bytes,show:e=>P(e.weights_bytes),number:!0},{name:"cod\
e",value:e=>e.code_bytes,show:e=>P(e.code_bytes),number:!0},{name:"arena",value:e=>e.arena_bytes,show:e=>P(e.arena_bytes),number:!0},{name:"nodes",value:e=>e.nodes,
show:e=>C(e.nodes),number:!0},{name:"time",value:e=>e.nanoseconds??e.instructions??null,show:e=>e.nanoseconds?$t(e.nanoseconds):e.instructions?`${C(e.instructions)}\
 instr.`:"",number:!0},{name:"measured",value:e=>e.where??"",show:e=>$(e.where??"not measured")}]})]})]})}var Xr=(t,e)=>t.a?.[e]&&t.b?.[e]!==null&&t.b?.[e]!==void 0?t.b[e]/t.a[e]-1:null,Wr={bytes:P,duration:$t,count:C,small:L};function Gr({report:t,subjects:e,pick:n,
label:r}){let{comparison:i}=t,a=e.every(s=>s.time?.unit==="ns")?$t:C;return c(F,{children:[c("p",{class:`verdict ${i.ok?"good":"bad"}`,role:"status",children:[c(
"b",{children:i.ok?"No limit is exceeded.":"A limit is exceeded."})," ",i.verdict.map($).join(" ")]}),c("section",{class:"card",children:[c("h2",{children:"In s\
um"}),c("table",{children:[c("thead",{children:c("tr",{children:[c("th",{scope:"col",children:"what"}),e.map((s,l)=>c("th",{scope:"col",class:"number",children:z(
r(s,l),36)},l)),c("th",{scope:"col",class:"number",children:"change"})]})}),c("tbody",{children:i.totals.map(s=>c("tr",{children:[c("td",{children:$(s.what)}),c(
"td",{class:"number",children:Wr[s.unit](s.a)}),c("td",{class:"number",children:Wr[s.unit](s.b)}),c("td",{class:"number",children:s.a?Rt(s.b/s.a-1):""})]},s.what))})]})]}),
i.outputs.length>0&&c("section",{class:"card",children:[c("h2",{children:"Outputs of B beside those of A"}),c(jo,{rows:i.outputs})]}),c("section",{class:"card",
children:[c("h2",{children:"Layer by layer"}),c(Y,{caption:"Layers of both",rows:i.layers.map((s,l)=>({...s,key:l})),first:{column:1,down:!0},onPick:s=>s.b?n(s.
b.nodes[0],1):n(s.a.nodes[0],0),columns:[{name:"nodes of the model",value:s=>s.sources.join(", "),show:s=>z(s.sources.join(", ")||s.name,44),pick:!0},{name:"tim\
e A",value:s=>s.a?.time??null,show:s=>a(s.a?.time),number:!0},{name:"time B",value:s=>s.b?.time??null,show:s=>a(s.b?.time),number:!0},{name:"time",value:s=>Xr(s,
"time"),show:s=>Rt(Xr(s,"time")),number:!0},{name:"weights A",value:s=>s.a?.weights_bytes??null,show:s=>C(s.a?.weights_bytes),number:!0},{name:"weights B",value:s=>s.
b?.weights_bytes??null,show:s=>C(s.b?.weights_bytes),number:!0},{name:"code A",value:s=>s.a?.code_bytes??null,show:s=>C(s.a?.code_bytes),number:!0},{name:"code \
B",value:s=>s.b?.code_bytes??null,show:s=>C(s.b?.code_bytes),number:!0},{name:"error",value:s=>s.error,show:s=>L(s.error),number:!0}]})]})]})}function jo({rows:t}){
return c(Y,{caption:"Outputs",rows:t.map((e,n)=>({...e,key:n})),columns:[{name:"output",value:e=>e.name,show:e=>z(e.name)},{name:"largest error",value:e=>e.error,
show:e=>L(e.error),number:!0},{name:"mean error",value:e=>e.mean,show:e=>L(e.mean),number:!0},{name:"cosine",value:e=>e.cosine,show:e=>e.cosine===null?"":e.cosine.
toFixed(6),number:!0}]})}var Sn="http://www.w3.org/1999/xhtml",Yr={svg:"http://www.w3.org/2000/svg",xhtml:Sn,xlink:"http://www.w3.org/1999/xlink",xml:"http://www.w3.org/XML/1998/namespa\
ce",xmlns:"http://www.w3.org/2000/xmlns/"};function ee(t){var e=t+="",n=e.indexOf(":");return n>=0&&(e=t.slice(0,n))!=="xmlns"&&(t=t.slice(n+1)),Yr.hasOwnProperty(
e)?{space:Yr[e],local:t}:t}function ta(t){return function(){var e=this.ownerDocument,n=this.namespaceURI;return n===Sn&&e.documentElement.namespaceURI===Sn?e.createElement(
t):e.createElementNS(n,t)}}function ea(t){return function(){return this.ownerDocument.createElementNS(t.space,t.local)}}function Kr(t){var e=ee(t);return(e.local?
ea:ta)(e)}function na(){}function Te(t){return t==null?na:function(){return this.querySelector(t)}}function ra(t){typeof t!="function"&&(t=Te(t));for(var e=this.
_groups,n=e.length,r=new Array(n),i=0;i<n;++i)for(var o=e[i],a=o.length,s=r[i]=new Array(a),l,u,h=0;h<a;++h)(l=o[h])&&(u=t.call(l,l.__data__,h,o))&&("__data__"in
l&&(u.__data__=l.__data__),s[h]=u);return new et(r,this._parents)}function ia(t){return t==null?[]:Array.isArray(t)?t:Array.from(t)}function oa(){return[]}function Tn(t){
return t==null?oa:function(){return this.querySelectorAll(t)}}function aa(t){return function(){return ia(t.apply(this,arguments))}}function sa(t){typeof t=="fun\
ction"?t=aa(t):t=Tn(t);for(var e=this._groups,n=e.length,r=[],i=[],o=0;o<n;++o)for(var a=e[o],s=a.length,l,u=0;u<s;++u)(l=a[u])&&(r.push(t.call(l,l.__data__,u,a)),
i.push(l));return new et(r,i)}function Cn(t){return function(){return this.matches(t)}}function Qr(t){return function(e){return e.matches(t)}}var ua=Array.prototype.
find;function la(t){return function(){return ua.call(this.children,t)}}function ca(){return this.firstElementChild}function fa(t){return this.select(t==null?ca:
la(typeof t=="function"?t:Qr(t)))}var ha=Array.prototype.filter;function da(){return Array.from(this.children)}function ma(t){return function(){return ha.call(this.
children,t)}}function pa(t){return this.selectAll(t==null?da:ma(typeof t=="function"?t:Qr(t)))}function ga(t){typeof t!="function"&&(t=Cn(t));for(var e=this._groups,
n=e.length,r=new Array(n),i=0;i<n;++i)for(var o=e[i],a=o.length,s=r[i]=[],l,u=0;u<a;++u)(l=o[u])&&t.call(l,l.__data__,u,o)&&s.push(l);return new et(r,this._parents)}
function Zr(t){return new Array(t.length)}function _a(){return new et(this._enter||this._groups.map(Zr),this._parents)}function Ee(t,e){this.ownerDocument=t.ownerDocument,
this.namespaceURI=t.namespaceURI,this._next=null,this._parent=t,this.__data__=e}Ee.prototype={constructor:Ee,appendChild:function(t){return this._parent.insertBefore(
t,this._next)},insertBefore:function(t,e){return this._parent.insertBefore(t,e)},querySelector:function(t){return this._parent.querySelector(t)},querySelectorAll:function(t){
return this._parent.querySelectorAll(t)}};function ya(t){return function(){return t}}function va(t,e,n,r,i,o){for(var a=0,s,l=e.length,u=o.length;a<u;++a)(s=e[a])?
(s.__data__=o[a],r[a]=s):n[a]=new Ee(t,o[a]);for(;a<l;++a)(s=e[a])&&(i[a]=s)}function ba(t,e,n,r,i,o,a){var s,l,u=new Map,h=e.length,d=o.length,f=new Array(h),m;
for(s=0;s<h;++s)(l=e[s])&&(f[s]=m=a.call(l,l.__data__,s,e)+"",u.has(m)?i[s]=l:u.set(m,l));for(s=0;s<d;++s)m=a.call(t,o[s],s,o)+"",(l=u.get(m))?(r[s]=l,l.__data__=
o[s],u.delete(m)):n[s]=new Ee(t,o[s]);for(s=0;s<h;++s)(l=e[s])&&u.get(f[s])===l&&(i[s]=l)}function wa(t){return t.__data__}function xa(t,e){if(!arguments.length)
return Array.from(this,wa);var n=e?ba:va,r=this._parents,i=this._groups;typeof t!="function"&&(t=ya(t));for(var o=i.length,a=new Array(o),s=new Array(o),l=new Array(
o),u=0;u<o;++u){var h=r[u],d=i[u],f=d.length,m=ka(t.call(h,h&&h.__data__,u,r)),g=m.length,w=s[u]=new Array(g),b=a[u]=new Array(g),_=l[u]=new Array(f);n(h,d,w,b,
_,m,e);for(var M=0,v=0,N,O;M<g;++M)if(N=w[M]){for(M>=v&&(v=M+1);!(O=b[v])&&++v<g;);N._next=O||null}}return a=new et(a,r),a._enter=s,a._exit=l,a}function ka(t){return typeof t==
"object"&&"length"in t?t:Array.from(t)}function Ma(){return new et(this._exit||this._groups.map(Zr),this._parents)}function $a(t,e,n){var r=this.enter(),i=this,
o=this.exit();return typeof t=="function"?(r=t(r),r&&(r=r.selection())):r=r.append(t+""),e!=null&&(i=e(i),i&&(i=i.selection())),n==null?o.remove():n(o),r&&i?r.merge(
i).order():i}function Na(t){for(var e=t.selection?t.selection():t,n=this._groups,r=e._groups,i=n.length,o=r.length,a=Math.min(i,o),s=new Array(i),l=0;l<a;++l)for(var u=n[l],
h=r[l],d=u.length,f=s[l]=new Array(d),m,g=0;g<d;++g)(m=u[g]||h[g])&&(f[g]=m);for(;l<i;++l)s[l]=n[l];return new et(s,this._parents)}function Aa(){for(var t=this.
_groups,e=-1,n=t.length;++e<n;)for(var r=t[e],i=r.length-1,o=r[i],a;--i>=0;)(a=r[i])&&(o&&a.compareDocumentPosition(o)^4&&o.parentNode.insertBefore(a,o),o=a);return this}
function Sa(t){t||(t=Ea);function e(d,f){return d&&f?t(d.__data__,f.__data__):!d-!f}for(var n=this._groups,r=n.length,i=new Array(r),o=0;o<r;++o){for(var a=n[o],
s=a.length,l=i[o]=new Array(s),u,h=0;h<s;++h)(u=a[h])&&(l[h]=u);l.sort(e)}return new et(i,this._parents).order()}function Ea(t,e){return t<e?-1:t>e?1:t>=e?0:NaN}
function Ta(){var t=arguments[0];return arguments[0]=this,t.apply(null,arguments),this}function Ca(){return Array.from(this)}function Ia(){for(var t=this._groups,
e=0,n=t.length;e<n;++e)for(var r=t[e],i=0,o=r.length;i<o;++i){var a=r[i];if(a)return a}return null}function za(){let t=0;for(let e of this)++t;return t}function Oa(){
return!this.node()}function Pa(t){for(var e=this._groups,n=0,r=e.length;n<r;++n)for(var i=e[n],o=0,a=i.length,s;o<a;++o)(s=i[o])&&t.call(s,s.__data__,o,i);return this}
function Da(t){return function(){this.removeAttribute(t)}}function Fa(t){return function(){this.removeAttributeNS(t.space,t.local)}}function Ra(t,e){return function(){
this.setAttribute(t,e)}}function qa(t,e){return function(){this.setAttributeNS(t.space,t.local,e)}}function La(t,e){return function(){var n=e.apply(this,arguments);
n==null?this.removeAttribute(t):this.setAttribute(t,n)}}function Ba(t,e){return function(){var n=e.apply(this,arguments);n==null?this.removeAttributeNS(t.space,
t.local):this.setAttributeNS(t.space,t.local,n)}}function Ha(t,e){var n=ee(t);if(arguments.length<2){var r=this.node();return n.local?r.getAttributeNS(n.space,n.
local):r.getAttribute(n)}return this.each((e==null?n.local?Fa:Da:typeof e=="function"?n.local?Ba:La:n.local?qa:Ra)(n,e))}function Jr(t){return t.ownerDocument&&
t.ownerDocument.defaultView||t.document&&t||t.defaultView}function Ua(t){return function(){this.style.removeProperty(t)}}function Va(t,e,n){return function(){this.
style.setProperty(t,e,n)}}function Xa(t,e,n){return function(){var r=e.apply(this,arguments);r==null?this.style.removeProperty(t):this.style.setProperty(t,r,n)}}
function Wa(t,e,n){return arguments.length>1?this.each((e==null?Ua:typeof e=="function"?Xa:Va)(t,e,n??"")):Et(this.node(),t)}function Et(t,e){return t.style.getPropertyValue(
e)||Jr(t).getComputedStyle(t,null).getPropertyValue(e)}function Ga(t){return function(){delete this[t]}}function Ya(t,e){return function(){this[t]=e}}function Ka(t,e){
return function(){var n=e.apply(this,arguments);n==null?delete this[t]:this[t]=n}}function Qa(t,e){return arguments.length>1?this.each((e==null?Ga:typeof e=="fu\
nction"?Ka:Ya)(t,e)):this.node()[t]}function jr(t){return t.trim().split(/^|\s+/)}function In(t){return t.classList||new ti(t)}function ti(t){this._node=t,this.
_names=jr(t.getAttribute("class")||"")}ti.prototype={add:function(t){var e=this._names.indexOf(t);e<0&&(this._names.push(t),this._node.setAttribute("class",this.
_names.join(" ")))},remove:function(t){var e=this._names.indexOf(t);e>=0&&(this._names.splice(e,1),this._node.setAttribute("class",this._names.join(" ")))},contains:function(t){
return this._names.indexOf(t)>=0}};function ei(t,e){for(var n=In(t),r=-1,i=e.length;++r<i;)n.add(e[r])}function ni(t,e){for(var n=In(t),r=-1,i=e.length;++r<i;)n.
remove(e[r])}function Za(t){return function(){ei(this,t)}}function Ja(t){return function(){ni(this,t)}}function ja(t,e){return function(){(e.apply(this,arguments)?
ei:ni)(this,t)}}function ts(t,e){var n=jr(t+"");if(arguments.length<2){for(var r=In(this.node()),i=-1,o=n.length;++i<o;)if(!r.contains(n[i]))return!1;return!0}return this.
each((typeof e=="function"?ja:e?Za:Ja)(n,e))}function es(){this.textContent=""}function ns(t){return function(){this.textContent=t}}function rs(t){return function(){
var e=t.apply(this,arguments);this.textContent=e??""}}function is(t){return arguments.length?this.each(t==null?es:(typeof t=="function"?rs:ns)(t)):this.node().textContent}
function os(){this.innerHTML=""}function as(t){return function(){this.innerHTML=t}}function ss(t){return function(){var e=t.apply(this,arguments);this.innerHTML=
e??""}}function us(t){return arguments.length?this.each(t==null?os:(typeof t=="function"?ss:as)(t)):this.node().innerHTML}function ls(){this.nextSibling&&this.parentNode.
appendChild(this)}function cs(){return this.each(ls)}function fs(){this.previousSibling&&this.parentNode.insertBefore(this,this.parentNode.firstChild)}function hs(){
return this.each(fs)}function ds(t){var e=typeof t=="function"?t:Kr(t);return this.select(function(){return this.appendChild(e.apply(this,arguments))})}function ms(){
return null}function ps(t,e){var n=typeof t=="function"?t:Kr(t),r=e==null?ms:typeof e=="function"?e:Te(e);return this.select(function(){return this.insertBefore(
n.apply(this,arguments),r.apply(this,arguments)||null)})}function gs(){var t=this.parentNode;t&&t.removeChild(this)}function _s(){return this.each(gs)}function ys(){
var t=this.cloneNode(!1),e=this.parentNode;return e?e.insertBefore(t,this.nextSibling):t}function vs(){var t=this.cloneNode(!0),e=this.parentNode;return e?e.insertBefore(
t,this.nextSibling):t}function bs(t){return this.select(t?vs:ys)}function ws(t){return arguments.length?this.property("__data__",t):this.node().__data__}function xs(t){
return function(e){t.call(this,e,this.__data__)}}function ks(t){return t.trim().split(/^|\s+/).map(function(e){var n="",r=e.indexOf(".");return r>=0&&(n=e.slice(
r+1),e=e.slice(0,r)),{type:e,name:n}})}function Ms(t){return function(){var e=this.__on;if(e){for(var n=0,r=-1,i=e.length,o;n<i;++n)o=e[n],(!t.type||o.type===t.
type)&&o.name===t.name?this.removeEventListener(o.type,o.listener,o.options):e[++r]=o;++r?e.length=r:delete this.__on}}}function $s(t,e,n){return function(){var r=this.
__on,i,o=xs(e);if(r){for(var a=0,s=r.length;a<s;++a)if((i=r[a]).type===t.type&&i.name===t.name){this.removeEventListener(i.type,i.listener,i.options),this.addEventListener(
i.type,i.listener=o,i.options=n),i.value=e;return}}this.addEventListener(t.type,o,n),i={type:t.type,name:t.name,value:e,listener:o,options:n},r?r.push(i):this.__on=
[i]}}function Ns(t,e,n){var r=ks(t+""),i,o=r.length,a;if(arguments.length<2){var s=this.node().__on;if(s){for(var l=0,u=s.length,h;l<u;++l)for(i=0,h=s[l];i<o;++i)
if((a=r[i]).type===h.type&&a.name===h.name)return h.value}return}for(s=e?$s:Ms,i=0;i<o;++i)this.each(s(r[i],e,n));return this}function ri(t,e,n){var r=Jr(t),i=r.
CustomEvent;typeof i=="function"?i=new i(e,n):(i=r.document.createEvent("Event"),n?(i.initEvent(e,n.bubbles,n.cancelable),i.detail=n.detail):i.initEvent(e,!1,!1)),
t.dispatchEvent(i)}function As(t,e){return function(){return ri(this,t,e)}}function Ss(t,e){return function(){return ri(this,t,e.apply(this,arguments))}}function Es(t,e){
return this.each((typeof e=="function"?Ss:As)(t,e))}function*Ts(){for(var t=this._groups,e=0,n=t.length;e<n;++e)for(var r=t[e],i=0,o=r.length,a;i<o;++i)(a=r[i])&&
(yield a)}var ii=[null];function et(t,e){this._groups=t,this._parents=e}function Tt(){return new et([[document.documentElement]],ii)}function Cs(){return this}et.
prototype=Tt.prototype={constructor:et,select:ra,selectAll:sa,selectChild:fa,selectChildren:pa,filter:ga,data:xa,enter:_a,exit:Ma,join:$a,merge:Na,selection:Cs,
order:Aa,sort:Sa,call:Ta,nodes:Ca,node:Ia,size:za,empty:Oa,each:Pa,attr:Ha,style:Wa,property:Qa,classed:ts,text:is,html:us,raise:cs,lower:hs,append:ds,insert:ps,
remove:_s,clone:bs,datum:ws,on:Ns,dispatch:Es,[Symbol.iterator]:Ts};function Z(t){return typeof t=="string"?new et([[document.querySelector(t)]],[document.documentElement]):
new et([[t]],ii)}var Is=0;function zs(){return new En}function En(){this._="@"+(++Is).toString(36)}En.prototype=zs.prototype={constructor:En,get:function(t){for(var e=this._;!(e in
t);)if(!(t=t.parentNode))return;return t[e]},set:function(t,e){return t[this._]=e},remove:function(t){return this._ in t&&delete t[this._]},toString:function(){
return this._}};function Os(t){let e;for(;e=t.sourceEvent;)t=e;return t}function yt(t,e){if(t=Os(t),e===void 0&&(e=t.currentTarget),e){var n=e.ownerSVGElement||
e;if(n.createSVGPoint){var r=n.createSVGPoint();return r.x=t.clientX,r.y=t.clientY,r=r.matrixTransform(e.getScreenCTM().inverse()),[r.x,r.y]}if(e.getBoundingClientRect){
var i=e.getBoundingClientRect();return[t.clientX-i.left-e.clientLeft,t.clientY-i.top-e.clientTop]}}return[t.pageX,t.pageY]}var Ps={value:()=>{}};function ne(){for(var t=0,e=arguments.length,n={},r;t<e;++t){if(!(r=arguments[t]+"")||r in n||/[\s.]/.test(r))throw new Error("illegal typ\
e: "+r);n[r]=[]}return new Ce(n)}function Ce(t){this._=t}function Ds(t,e){return t.trim().split(/^|\s+/).map(function(n){var r="",i=n.indexOf(".");if(i>=0&&(r=n.
slice(i+1),n=n.slice(0,i)),n&&!e.hasOwnProperty(n))throw new Error("unknown type: "+n);return{type:n,name:r}})}Ce.prototype=ne.prototype={constructor:Ce,on:function(t,e){
var n=this._,r=Ds(t+"",n),i,o=-1,a=r.length;if(arguments.length<2){for(;++o<a;)if((i=(t=r[o]).type)&&(i=Fs(n[i],t.name)))return i;return}if(e!=null&&typeof e!="\
function")throw new Error("invalid callback: "+e);for(;++o<a;)if(i=(t=r[o]).type)n[i]=oi(n[i],t.name,e);else if(e==null)for(i in n)n[i]=oi(n[i],t.name,null);return this},
copy:function(){var t={},e=this._;for(var n in e)t[n]=e[n].slice();return new Ce(t)},call:function(t,e){if((i=arguments.length-2)>0)for(var n=new Array(i),r=0,i,
o;r<i;++r)n[r]=arguments[r+2];if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(o=this._[t],r=0,i=o.length;r<i;++r)o[r].value.apply(e,n)},apply:function(t,e,n){
if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(var r=this._[t],i=0,o=r.length;i<o;++i)r[i].value.apply(e,n)}};function Fs(t,e){for(var n=0,
r=t.length,i;n<r;++n)if((i=t[n]).name===e)return i.value}function oi(t,e,n){for(var r=0,i=t.length;r<i;++r)if(t[r].name===e){t[r]=Ps,t=t.slice(0,r).concat(t.slice(
r+1));break}return n!=null&&t.push({name:e,value:n}),t}var zn={capture:!0,passive:!1};function On(t){t.preventDefault(),t.stopImmediatePropagation()}function ai(t){var e=t.document.documentElement,n=Z(t).on("dragstart.drag",On,zn);"onselectstart"in
e?n.on("selectstart.drag",On,zn):(e.__noselect=e.style.MozUserSelect,e.style.MozUserSelect="none")}function si(t,e){var n=t.document.documentElement,r=Z(t).on("\
dragstart.drag",null);e&&(r.on("click.drag",On,zn),setTimeout(function(){r.on("click.drag",null)},0)),"onselectstart"in n?r.on("selectstart.drag",null):(n.style.
MozUserSelect=n.__noselect,delete n.__noselect)}function Rs(t,{sourceEvent:e,subject:n,target:r,identifier:i,active:o,x:a,y:s,dx:l,dy:u,dispatch:h}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},
sourceEvent:{value:e,enumerable:!0,configurable:!0},subject:{value:n,enumerable:!0,configurable:!0},target:{value:r,enumerable:!0,configurable:!0},identifier:{value:i,
enumerable:!0,configurable:!0},active:{value:o,enumerable:!0,configurable:!0},x:{value:a,enumerable:!0,configurable:!0},y:{value:s,enumerable:!0,configurable:!0},
dx:{value:l,enumerable:!0,configurable:!0},dy:{value:u,enumerable:!0,configurable:!0},_:{value:h}})}Rs.prototype.on=function(){var t=this._.on.apply(this._,arguments);
return t===this._?this:t};function Ht(t,e,n){t.prototype=e.prototype=n,n.constructor=t}function oe(t,e){var n=Object.create(t.prototype);for(var r in e)n[r]=e[r];return n}function Nt(){}
var Ot=.7,Bt=1/Ot,qt="\\s*([+-]?\\d+)\\s*",re="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*",ct="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*",qs=/^#([0-9a-f]{3,8})$/,
Ls=new RegExp(`^rgb\\(${qt},${qt},${qt}\\)$`),Bs=new RegExp(`^rgb\\(${ct},${ct},${ct}\\)$`),Hs=new RegExp(`^rgba\\(${qt},${qt},${qt},${re}\\)$`),Us=new RegExp(`\
^rgba\\(${ct},${ct},${ct},${re}\\)$`),Vs=new RegExp(`^hsl\\(${re},${ct},${ct}\\)$`),Xs=new RegExp(`^hsla\\(${re},${ct},${ct},${re}\\)$`),ui={aliceblue:15792383,
antiquewhite:16444375,aqua:65535,aquamarine:8388564,azure:15794175,beige:16119260,bisque:16770244,black:0,blanchedalmond:16772045,blue:255,blueviolet:9055202,brown:10824234,
burlywood:14596231,cadetblue:6266528,chartreuse:8388352,chocolate:13789470,coral:16744272,cornflowerblue:6591981,cornsilk:16775388,crimson:14423100,cyan:65535,darkblue:139,
darkcyan:35723,darkgoldenrod:12092939,darkgray:11119017,darkgreen:25600,darkgrey:11119017,darkkhaki:12433259,darkmagenta:9109643,darkolivegreen:5597999,darkorange:16747520,
darkorchid:10040012,darkred:9109504,darksalmon:15308410,darkseagreen:9419919,darkslateblue:4734347,darkslategray:3100495,darkslategrey:3100495,darkturquoise:52945,
darkviolet:9699539,deeppink:16716947,deepskyblue:49151,dimgray:6908265,dimgrey:6908265,dodgerblue:2003199,firebrick:11674146,floralwhite:16775920,forestgreen:2263842,
fuchsia:16711935,gainsboro:14474460,ghostwhite:16316671,gold:16766720,goldenrod:14329120,gray:8421504,green:32768,greenyellow:11403055,grey:8421504,honeydew:15794160,
hotpink:16738740,indianred:13458524,indigo:4915330,ivory:16777200,khaki:15787660,lavender:15132410,lavenderblush:16773365,lawngreen:8190976,lemonchiffon:16775885,
lightblue:11393254,lightcoral:15761536,lightcyan:14745599,lightgoldenrodyellow:16448210,lightgray:13882323,lightgreen:9498256,lightgrey:13882323,lightpink:16758465,
lightsalmon:16752762,lightseagreen:2142890,lightskyblue:8900346,lightslategray:7833753,lightslategrey:7833753,lightsteelblue:11584734,lightyellow:16777184,lime:65280,
limegreen:3329330,linen:16445670,magenta:16711935,maroon:8388608,mediumaquamarine:6737322,mediumblue:205,mediumorchid:12211667,mediumpurple:9662683,mediumseagreen:3978097,
mediumslateblue:8087790,mediumspringgreen:64154,mediumturquoise:4772300,mediumvioletred:13047173,midnightblue:1644912,mintcream:16121850,mistyrose:16770273,moccasin:16770229,
navajowhite:16768685,navy:128,oldlace:16643558,olive:8421376,olivedrab:7048739,orange:16753920,orangered:16729344,orchid:14315734,palegoldenrod:15657130,palegreen:10025880,
paleturquoise:11529966,palevioletred:14381203,papayawhip:16773077,peachpuff:16767673,peru:13468991,pink:16761035,plum:14524637,powderblue:11591910,purple:8388736,
rebeccapurple:6697881,red:16711680,rosybrown:12357519,royalblue:4286945,saddlebrown:9127187,salmon:16416882,sandybrown:16032864,seagreen:3050327,seashell:16774638,
sienna:10506797,silver:12632256,skyblue:8900331,slateblue:6970061,slategray:7372944,slategrey:7372944,snow:16775930,springgreen:65407,steelblue:4620980,tan:13808780,
teal:32896,thistle:14204888,tomato:16737095,turquoise:4251856,violet:15631086,wheat:16113331,white:16777215,whitesmoke:16119285,yellow:16776960,yellowgreen:10145074};
Ht(Nt,bt,{copy(t){return Object.assign(new this.constructor,this,t)},displayable(){return this.rgb().displayable()},hex:li,formatHex:li,formatHex8:Ws,formatHsl:Gs,
formatRgb:ci,toString:ci});function li(){return this.rgb().formatHex()}function Ws(){return this.rgb().formatHex8()}function Gs(){return vi(this).formatHsl()}function ci(){
return this.rgb().formatRgb()}function bt(t){var e,n;return t=(t+"").trim().toLowerCase(),(e=qs.exec(t))?(n=e[1].length,e=parseInt(e[1],16),n===6?fi(e):n===3?new W(
e>>8&15|e>>4&240,e>>4&15|e&240,(e&15)<<4|e&15,1):n===8?Ie(e>>24&255,e>>16&255,e>>8&255,(e&255)/255):n===4?Ie(e>>12&15|e>>8&240,e>>8&15|e>>4&240,e>>4&15|e&240,((e&
15)<<4|e&15)/255):null):(e=Ls.exec(t))?new W(e[1],e[2],e[3],1):(e=Bs.exec(t))?new W(e[1]*255/100,e[2]*255/100,e[3]*255/100,1):(e=Hs.exec(t))?Ie(e[1],e[2],e[3],e[4]):
(e=Us.exec(t))?Ie(e[1]*255/100,e[2]*255/100,e[3]*255/100,e[4]):(e=Vs.exec(t))?mi(e[1],e[2]/100,e[3]/100,1):(e=Xs.exec(t))?mi(e[1],e[2]/100,e[3]/100,e[4]):ui.hasOwnProperty(
t)?fi(ui[t]):t==="transparent"?new W(NaN,NaN,NaN,0):null}function fi(t){return new W(t>>16&255,t>>8&255,t&255,1)}function Ie(t,e,n,r){return r<=0&&(t=e=n=NaN),new W(
t,e,n,r)}function Ln(t){return t instanceof Nt||(t=bt(t)),t?(t=t.rgb(),new W(t.r,t.g,t.b,t.opacity)):new W}function ae(t,e,n,r){return arguments.length===1?Ln(t):
new W(t,e,n,r??1)}function W(t,e,n,r){this.r=+t,this.g=+e,this.b=+n,this.opacity=+r}Ht(W,ae,oe(Nt,{brighter(t){return t=t==null?Bt:Math.pow(Bt,t),new W(this.r*t,
this.g*t,this.b*t,this.opacity)},darker(t){return t=t==null?Ot:Math.pow(Ot,t),new W(this.r*t,this.g*t,this.b*t,this.opacity)},rgb(){return this},clamp(){return new W(
It(this.r),It(this.g),It(this.b),Oe(this.opacity))},displayable(){return-.5<=this.r&&this.r<255.5&&-.5<=this.g&&this.g<255.5&&-.5<=this.b&&this.b<255.5&&0<=this.
opacity&&this.opacity<=1},hex:hi,formatHex:hi,formatHex8:Ys,formatRgb:di,toString:di}));function hi(){return`#${Ct(this.r)}${Ct(this.g)}${Ct(this.b)}`}function Ys(){
return`#${Ct(this.r)}${Ct(this.g)}${Ct(this.b)}${Ct((isNaN(this.opacity)?1:this.opacity)*255)}`}function di(){let t=Oe(this.opacity);return`${t===1?"rgb(":"rgba\
("}${It(this.r)}, ${It(this.g)}, ${It(this.b)}${t===1?")":`, ${t})`}`}function Oe(t){return isNaN(t)?1:Math.max(0,Math.min(1,t))}function It(t){return Math.max(
0,Math.min(255,Math.round(t)||0))}function Ct(t){return t=It(t),(t<16?"0":"")+t.toString(16)}function mi(t,e,n,r){return r<=0?t=e=n=NaN:n<=0||n>=1?t=e=NaN:e<=0&&
(t=NaN),new at(t,e,n,r)}function vi(t){if(t instanceof at)return new at(t.h,t.s,t.l,t.opacity);if(t instanceof Nt||(t=bt(t)),!t)return new at;if(t instanceof at)
return t;t=t.rgb();var e=t.r/255,n=t.g/255,r=t.b/255,i=Math.min(e,n,r),o=Math.max(e,n,r),a=NaN,s=o-i,l=(o+i)/2;return s?(e===o?a=(n-r)/s+(n<r)*6:n===o?a=(r-e)/s+
2:a=(e-n)/s+4,s/=l<.5?o+i:2-o-i,a*=60):s=l>0&&l<1?0:a,new at(a,s,l,t.opacity)}function De(t,e,n,r){return arguments.length===1?vi(t):new at(t,e,n,r??1)}function at(t,e,n,r){
this.h=+t,this.s=+e,this.l=+n,this.opacity=+r}Ht(at,De,oe(Nt,{brighter(t){return t=t==null?Bt:Math.pow(Bt,t),new at(this.h,this.s,this.l*t,this.opacity)},darker(t){
return t=t==null?Ot:Math.pow(Ot,t),new at(this.h,this.s,this.l*t,this.opacity)},rgb(){var t=this.h%360+(this.h<0)*360,e=isNaN(t)||isNaN(this.s)?0:this.s,n=this.
l,r=n+(n<.5?n:1-n)*e,i=2*n-r;return new W(Pn(t>=240?t-240:t+120,i,r),Pn(t,i,r),Pn(t<120?t+240:t-120,i,r),this.opacity)},clamp(){return new at(pi(this.h),ze(this.
s),ze(this.l),Oe(this.opacity))},displayable(){return(0<=this.s&&this.s<=1||isNaN(this.s))&&0<=this.l&&this.l<=1&&0<=this.opacity&&this.opacity<=1},formatHsl(){
let t=Oe(this.opacity);return`${t===1?"hsl(":"hsla("}${pi(this.h)}, ${ze(this.s)*100}%, ${ze(this.l)*100}%${t===1?")":`, ${t})`}`}}));function pi(t){return t=(t||
0)%360,t<0?t+360:t}function ze(t){return Math.max(0,Math.min(1,t||0))}function Pn(t,e,n){return(t<60?e+(n-e)*t/60:t<180?n:t<240?e+(n-e)*(240-t)/60:e)*255}var bi=Math.
PI/180,wi=180/Math.PI,Pe=18,xi=.96422,ki=1,Mi=.82521,$i=4/29,Lt=6/29,Ni=3*Lt*Lt,Ks=Lt*Lt*Lt;function Ai(t){if(t instanceof ft)return new ft(t.l,t.a,t.b,t.opacity);
if(t instanceof vt)return Ei(t);t instanceof W||(t=Ln(t));var e=qn(t.r),n=qn(t.g),r=qn(t.b),i=Dn((.2225045*e+.7168786*n+.0606169*r)/ki),o,a;return e===n&&n===r?
o=a=i:(o=Dn((.4360747*e+.3850649*n+.1430804*r)/xi),a=Dn((.0139322*e+.0971045*n+.7141733*r)/Mi)),new ft(116*i-16,500*(o-i),200*(i-a),t.opacity)}function Si(t,e,n,r){return arguments.length===1?Ai(t):new ft(t,e,n,r??1)}function ft(t,e,n,r){this.l=+t,this.a=+e,this.b=+n,this.opacity=+r}Ht(ft,Si,oe(Nt,{brighter(t){
return new ft(this.l+Pe*(t??1),this.a,this.b,this.opacity)},darker(t){return new ft(this.l-Pe*(t??1),this.a,this.b,this.opacity)},rgb(){var t=(this.l+16)/116,e=isNaN(
this.a)?t:t+this.a/500,n=isNaN(this.b)?t:t-this.b/200;return e=xi*Fn(e),t=ki*Fn(t),n=Mi*Fn(n),new W(Rn(3.1338561*e-1.6168667*t-.4906146*n),Rn(-.9787684*e+1.9161415*
t+.033454*n),Rn(.0719453*e-.2289914*t+1.4052427*n),this.opacity)}}));function Dn(t){return t>Ks?Math.pow(t,1/3):t/Ni+$i}function Fn(t){return t>Lt?t*t*t:Ni*(t-$i)}
function Rn(t){return 255*(t<=.0031308?12.92*t:1.055*Math.pow(t,1/2.4)-.055)}function qn(t){return(t/=255)<=.04045?t/12.92:Math.pow((t+.055)/1.055,2.4)}function Qs(t){
if(t instanceof vt)return new vt(t.h,t.c,t.l,t.opacity);if(t instanceof ft||(t=Ai(t)),t.a===0&&t.b===0)return new vt(NaN,0<t.l&&t.l<100?0:NaN,t.l,t.opacity);var e=Math.
atan2(t.b,t.a)*wi;return new vt(e<0?e+360:e,Math.sqrt(t.a*t.a+t.b*t.b),t.l,t.opacity)}function Fe(t,e,n,r){return arguments.length===1?Qs(t):new vt(t,e,n,r??1)}function vt(t,e,n,r){this.h=+t,this.c=+e,this.l=+n,this.opacity=+r}function Ei(t){if(isNaN(
t.h))return new ft(t.l,0,0,t.opacity);var e=t.h*bi;return new ft(t.l,Math.cos(e)*t.c,Math.sin(e)*t.c,t.opacity)}Ht(vt,Fe,oe(Nt,{brighter(t){return new vt(this.h,
this.c,this.l+Pe*(t??1),this.opacity)},darker(t){return new vt(this.h,this.c,this.l-Pe*(t??1),this.opacity)},rgb(){return Ei(this).rgb()}}));var Ti=-.14861,Bn=1.78277,
Hn=-.29227,Re=-.90649,ie=1.97294,gi=ie*Re,_i=ie*Bn,yi=Bn*Hn-Re*Ti;function Zs(t){if(t instanceof zt)return new zt(t.h,t.s,t.l,t.opacity);t instanceof W||(t=Ln(t));
var e=t.r/255,n=t.g/255,r=t.b/255,i=(yi*r+gi*e-_i*n)/(yi+gi-_i),o=r-i,a=(ie*(n-i)-Hn*o)/Re,s=Math.sqrt(a*a+o*o)/(ie*i*(1-i)),l=s?Math.atan2(a,o)*wi-120:NaN;return new zt(
l<0?l+360:l,s,i,t.opacity)}function qe(t,e,n,r){return arguments.length===1?Zs(t):new zt(t,e,n,r??1)}function zt(t,e,n,r){this.h=+t,this.s=+e,this.l=+n,this.opacity=
+r}Ht(zt,qe,oe(Nt,{brighter(t){return t=t==null?Bt:Math.pow(Bt,t),new zt(this.h,this.s,this.l*t,this.opacity)},darker(t){return t=t==null?Ot:Math.pow(Ot,t),new zt(
this.h,this.s,this.l*t,this.opacity)},rgb(){var t=isNaN(this.h)?0:(this.h+120)*bi,e=+this.l,n=isNaN(this.s)?0:this.s*e*(1-e),r=Math.cos(t),i=Math.sin(t);return new W(
255*(e+n*(Ti*r+Bn*i)),255*(e+n*(Hn*r+Re*i)),255*(e+n*(ie*r)),this.opacity)}}));function zi(t,e,n,r,i){var o=t*t,a=o*t;return((1-3*t+3*o-a)*e+(4-6*o+3*a)*n+(1+3*t+3*o-3*a)*r+a*i)/6}function Js(t){var e=t.length-1;return function(n){var r=n<=
0?n=0:n>=1?(n=1,e-1):Math.floor(n*e),i=t[r],o=t[r+1],a=r>0?t[r-1]:2*i-o,s=r<e-1?t[r+2]:2*o-i;return zi((n-r/e)*e,a,i,o,s)}}function js(t){var e=t.length;return function(n){
var r=Math.floor(((n%=1)<0?++n:n)*e),i=t[(r+e-1)%e],o=t[r%e],a=t[(r+1)%e],s=t[(r+2)%e];return zi((n-r/e)*e,i,o,a,s)}}var Be=t=>()=>t;function Oi(t,e){return function(n){
return t+n*e}}function tu(t,e,n){return t=Math.pow(t,n),e=Math.pow(e,n)-t,n=1/n,function(r){return Math.pow(t+r*e,n)}}function Wn(t,e){var n=e-t;return n?Oi(t,n>
180||n<-180?n-360*Math.round(n/360):n):Be(isNaN(t)?e:t)}function eu(t){return(t=+t)==1?tt:function(e,n){return n-e?tu(e,n,t):Be(isNaN(e)?n:e)}}function tt(t,e){
var n=e-t;return n?Oi(t,n):Be(isNaN(t)?e:t)}var se=(function t(e){var n=eu(e);function r(i,o){var a=n((i=ae(i)).r,(o=ae(o)).r),s=n(i.g,o.g),l=n(i.b,o.b),u=tt(i.
opacity,o.opacity);return function(h){return i.r=a(h),i.g=s(h),i.b=l(h),i.opacity=u(h),i+""}}return r.gamma=t,r})(1);function Pi(t){return function(e){var n=e.length,
r=new Array(n),i=new Array(n),o=new Array(n),a,s;for(a=0;a<n;++a)s=ae(e[a]),r[a]=s.r||0,i[a]=s.g||0,o[a]=s.b||0;return r=t(r),i=t(i),o=t(o),s.opacity=1,function(l){
return s.r=r(l),s.g=i(l),s.b=o(l),s+""}}}var ef=Pi(Js),nf=Pi(js);function nu(t,e){e||(e=[]);var n=t?Math.min(e.length,t.length):0,r=e.slice(),i;return function(o){
for(i=0;i<n;++i)r[i]=t[i]*(1-o)+e[i]*o;return r}}function ru(t){return ArrayBuffer.isView(t)&&!(t instanceof DataView)}function iu(t,e){var n=e?e.length:0,r=t?Math.min(n,t.length):0,i=new Array(r),o=new Array(n),a;for(a=0;a<r;++a)i[a]=He(t[a],e[a]);for(;a<n;++a)o[a]=e[a];return function(s){
for(a=0;a<r;++a)o[a]=i[a](s);return o}}function ou(t,e){var n=new Date;return t=+t,e=+e,function(r){return n.setTime(t*(1-r)+e*r),n}}function nt(t,e){return t=+t,
e=+e,function(n){return t*(1-n)+e*n}}function au(t,e){var n={},r={},i;(t===null||typeof t!="object")&&(t={}),(e===null||typeof e!="object")&&(e={});for(i in e)i in
t?n[i]=He(t[i],e[i]):r[i]=e[i];return function(o){for(i in n)r[i]=n[i](o);return r}}var Vn=/[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g,Un=new RegExp(Vn.source,
"g");function su(t){return function(){return t}}function uu(t){return function(e){return t(e)+""}}function Gn(t,e){var n=Vn.lastIndex=Un.lastIndex=0,r,i,o,a=-1,
s=[],l=[];for(t=t+"",e=e+"";(r=Vn.exec(t))&&(i=Un.exec(e));)(o=i.index)>n&&(o=e.slice(n,o),s[a]?s[a]+=o:s[++a]=o),(r=r[0])===(i=i[0])?s[a]?s[a]+=i:s[++a]=i:(s[++a]=
null,l.push({i:a,x:nt(r,i)})),n=Un.lastIndex;return n<e.length&&(o=e.slice(n),s[a]?s[a]+=o:s[++a]=o),s.length<2?l[0]?uu(l[0].x):su(e):(e=l.length,function(u){for(var h=0,
d;h<e;++h)s[(d=l[h]).i]=d.x(u);return s.join("")})}function He(t,e){var n=typeof e,r;return e==null||n==="boolean"?Be(e):(n==="number"?nt:n==="string"?(r=bt(e))?
(e=r,se):Gn:e instanceof bt?se:e instanceof Date?ou:ru(e)?nu:Array.isArray(e)?iu:typeof e.valueOf!="function"&&typeof e.toString!="function"||isNaN(e)?au:nt)(t,
e)}function Di(t,e){return t=+t,e=+e,function(n){return Math.round(t*(1-n)+e*n)}}var Ci=180/Math.PI,Xn={translateX:0,translateY:0,rotate:0,skewX:0,scaleX:1,scaleY:1};
function Fi(t,e,n,r,i,o){var a,s,l;return(a=Math.sqrt(t*t+e*e))&&(t/=a,e/=a),(l=t*n+e*r)&&(n-=t*l,r-=e*l),(s=Math.sqrt(n*n+r*r))&&(n/=s,r/=s,l/=s),t*r<e*n&&(t=-t,
e=-e,l=-l,a=-a),{translateX:i,translateY:o,rotate:Math.atan2(e,t)*Ci,skewX:Math.atan(l)*Ci,scaleX:a,scaleY:s}}var Le;function lu(t){let e=new(typeof DOMMatrix==
"function"?DOMMatrix:WebKitCSSMatrix)(t+"");return e.isIdentity?Xn:Fi(e.a,e.b,e.c,e.d,e.e,e.f)}function cu(t){return t==null||(Le||(Le=document.createElementNS(
"http://www.w3.org/2000/svg","g")),Le.setAttribute("transform",t),!(t=Le.transform.baseVal.consolidate()))?Xn:(t=t.matrix,Fi(t.a,t.b,t.c,t.d,t.e,t.f))}function Ri(t,e,n,r){
function i(u){return u.length?u.pop()+" ":""}function o(u,h,d,f,m,g){if(u!==d||h!==f){var w=m.push("translate(",null,e,null,n);g.push({i:w-4,x:nt(u,d)},{i:w-2,x:nt(
h,f)})}else(d||f)&&m.push("translate("+d+e+f+n)}function a(u,h,d,f){u!==h?(u-h>180?h+=360:h-u>180&&(u+=360),f.push({i:d.push(i(d)+"rotate(",null,r)-2,x:nt(u,h)})):
h&&d.push(i(d)+"rotate("+h+r)}function s(u,h,d,f){u!==h?f.push({i:d.push(i(d)+"skewX(",null,r)-2,x:nt(u,h)}):h&&d.push(i(d)+"skewX("+h+r)}function l(u,h,d,f,m,g){
if(u!==d||h!==f){var w=m.push(i(m)+"scale(",null,",",null,")");g.push({i:w-4,x:nt(u,d)},{i:w-2,x:nt(h,f)})}else(d!==1||f!==1)&&m.push(i(m)+"scale("+d+","+f+")")}
return function(u,h){var d=[],f=[];return u=t(u),h=t(h),o(u.translateX,u.translateY,h.translateX,h.translateY,d,f),a(u.rotate,h.rotate,d,f),s(u.skewX,h.skewX,d,
f),l(u.scaleX,u.scaleY,h.scaleX,h.scaleY,d,f),u=h=null,function(m){for(var g=-1,w=f.length,b;++g<w;)d[(b=f[g]).i]=b.x(m);return d.join("")}}}var qi=Ri(lu,"px, ",
"px)","deg)"),Li=Ri(cu,", ",")",")"),fu=1e-12;function Ii(t){return((t=Math.exp(t))+1/t)/2}function hu(t){return((t=Math.exp(t))-1/t)/2}function du(t){return((t=
Math.exp(2*t))-1)/(t+1)}var Bi=(function t(e,n,r){function i(o,a){var s=o[0],l=o[1],u=o[2],h=a[0],d=a[1],f=a[2],m=h-s,g=d-l,w=m*m+g*g,b,_;if(w<fu)_=Math.log(f/u)/
e,b=function(q){return[s+q*m,l+q*g,u*Math.exp(e*q*_)]};else{var M=Math.sqrt(w),v=(f*f-u*u+r*w)/(2*u*n*M),N=(f*f-u*u-r*w)/(2*f*n*M),O=Math.log(Math.sqrt(v*v+1)-v),
T=Math.log(Math.sqrt(N*N+1)-N);_=(T-O)/e,b=function(q){var K=q*_,J=Ii(O),B=u/(n*M)*(J*du(e*K+O)-hu(O));return[s+B*m,l+B*g,u*J/Ii(e*K+O)]}}return b.duration=Math.
abs(_)*1e3*e/Math.SQRT2,b}return i.rho=function(o){var a=Math.max(.001,+o),s=a*a,l=s*s;return t(a,s,l)},i})(Math.SQRT2,2,4);function Hi(t){return function(e,n){
var r=t((e=De(e)).h,(n=De(n)).h),i=tt(e.s,n.s),o=tt(e.l,n.l),a=tt(e.opacity,n.opacity);return function(s){return e.h=r(s),e.s=i(s),e.l=o(s),e.opacity=a(s),e+""}}}
var rf=Hi(Wn),of=Hi(tt);function Ui(t){return function(e,n){var r=t((e=Fe(e)).h,(n=Fe(n)).h),i=tt(e.c,n.c),o=tt(e.l,n.l),a=tt(e.opacity,n.opacity);return function(s){return e.h=r(s),e.
c=i(s),e.l=o(s),e.opacity=a(s),e+""}}}var af=Ui(Wn),sf=Ui(tt);function Vi(t){return(function e(n){n=+n;function r(i,o){var a=t((i=qe(i)).h,(o=qe(o)).h),s=tt(i.s,
o.s),l=tt(i.l,o.l),u=tt(i.opacity,o.opacity);return function(h){return i.h=a(h),i.s=s(h),i.l=l(Math.pow(h,n)),i.opacity=u(h),i+""}}return r.gamma=e,r})(1)}var uf=Vi(
Wn),lf=Vi(tt);var Ut=0,le=0,ue=0,Wi=1e3,Ue,ce,Ve=0,Pt=0,We=0,fe=typeof performance=="object"&&performance.now?performance:Date,Gi=typeof window=="object"&&window.requestAnimationFrame?
window.requestAnimationFrame.bind(window):function(t){setTimeout(t,17)};function Ge(){return Pt||(Gi(mu),Pt=fe.now()+We)}function mu(){Pt=0}function Xe(){this._call=
this._time=this._next=null}Xe.prototype=Kn.prototype={constructor:Xe,restart:function(t,e,n){if(typeof t!="function")throw new TypeError("callback is not a func\
tion");n=(n==null?Ge():+n)+(e==null?0:+e),!this._next&&ce!==this&&(ce?ce._next=this:Ue=this,ce=this),this._call=t,this._time=n,Yn()},stop:function(){this._call&&
(this._call=null,this._time=1/0,Yn())}};function Kn(t,e,n){var r=new Xe;return r.restart(t,e,n),r}function pu(){Ge(),++Ut;for(var t=Ue,e;t;)(e=Pt-t._time)>=0&&t.
_call.call(void 0,e),t=t._next;--Ut}function Xi(){Pt=(Ve=fe.now())+We,Ut=le=0;try{pu()}finally{Ut=0,_u(),Pt=0}}function gu(){var t=fe.now(),e=t-Ve;e>Wi&&(We-=e,
Ve=t)}function _u(){for(var t,e=Ue,n,r=1/0;e;)e._call?(r>e._time&&(r=e._time),t=e,e=e._next):(n=e._next,e._next=null,e=t?t._next=n:Ue=n);ce=t,Yn(r)}function Yn(t){
if(!Ut){le&&(le=clearTimeout(le));var e=t-Pt;e>24?(t<1/0&&(le=setTimeout(Xi,Math.ceil(t-fe.now()-We)+1)),ue&&(ue=clearInterval(ue))):(ue||(Ve=fe.now(),ue=setInterval(
gu,Wi)),Ut=1,Gi(Xi))}}function Qn(t,e,n){var r=new Xe;return e=e==null?0:+e,r.restart(i=>{r.stop(),t(i+e)},e,n),r}function Ki(t){return((t*=2)<=1?t*t*t:(t-=2)*t*t+2)/2}var Zn=3,hf=(function t(e){e=+e;function n(r){return Math.pow(r,e)}return n.exponent=t,n})(Zn),df=(function t(e){
e=+e;function n(r){return 1-Math.pow(1-r,e)}return n.exponent=t,n})(Zn),mf=(function t(e){e=+e;function n(r){return((r*=2)<=1?Math.pow(r,e):2-Math.pow(2-r,e))/2}
return n.exponent=t,n})(Zn),yu=Math.PI,pf=yu/2;function Ye(t){return(Math.pow(2,-10*t)-.0009765625)*1.0009775171065494}var Yi=4/11,gf=6/11,_f=8/11,yf=3/4,vf=9/11,bf=10/11,wf=15/16,xf=21/22,kf=63/64,Mf=1/Yi/Yi;var Jn=1.70158,$f=(function t(e){e=+e;function n(r){return(r=+r)*r*(e*(r-1)+r)}return n.overshoot=t,n})(Jn),Nf=(function t(e){e=+e;function n(r){return--r*r*((r+
1)*e+r)+1}return n.overshoot=t,n})(Jn),Af=(function t(e){e=+e;function n(r){return((r*=2)<1?r*r*((e+1)*r-e):(r-=2)*r*((e+1)*r+e)+2)/2}return n.overshoot=t,n})(Jn),
Vt=2*Math.PI,jn=1,tr=.3,Sf=(function t(e,n){var r=Math.asin(1/(e=Math.max(1,e)))*(n/=Vt);function i(o){return e*Ye(- --o)*Math.sin((r-o)/n)}return i.amplitude=function(o){
return t(o,n*Vt)},i.period=function(o){return t(e,o)},i})(jn,tr),Ef=(function t(e,n){var r=Math.asin(1/(e=Math.max(1,e)))*(n/=Vt);function i(o){return 1-e*Ye(o=
+o)*Math.sin((o+r)/n)}return i.amplitude=function(o){return t(o,n*Vt)},i.period=function(o){return t(e,o)},i})(jn,tr),Tf=(function t(e,n){var r=Math.asin(1/(e=Math.
max(1,e)))*(n/=Vt);function i(o){return((o=o*2-1)<0?e*Ye(-o)*Math.sin((r-o)/n):2-e*Ye(o)*Math.sin((r+o)/n))/2}return i.amplitude=function(o){return t(o,n*Vt)},i.
period=function(o){return t(e,o)},i})(jn,tr);var vu=ne("start","end","cancel","interrupt"),bu=[],Ji=0,Qi=1,er=2,Ke=3,Zi=4,nr=5,Qe=6;function Ze(t,e,n,r,i,o){var a=t.__transition;if(!a)t.__transition={};else if(n in
a)return;wu(t,n,{name:e,index:r,group:i,on:vu,tween:bu,time:o.time,delay:o.delay,duration:o.duration,ease:o.ease,timer:null,state:Ji})}function rr(t,e){var n=st(
t,e);if(n.state>Ji)throw new Error("too late; already scheduled");return n}function ht(t,e){var n=st(t,e);if(n.state>Ke)throw new Error("too late; already runni\
ng");return n}function st(t,e){var n=t.__transition;if(!n||!(n=n[e]))throw new Error("transition not found");return n}function wu(t,e,n){var r=t.__transition,i;
r[e]=n,n.timer=Kn(o,0,n.time);function o(u){n.state=Qi,n.timer.restart(a,n.delay,n.time),n.delay<=u&&a(u-n.delay)}function a(u){var h,d,f,m;if(n.state!==Qi)return l();
for(h in r)if(m=r[h],m.name===n.name){if(m.state===Ke)return Qn(a);m.state===Zi?(m.state=Qe,m.timer.stop(),m.on.call("interrupt",t,t.__data__,m.index,m.group),delete r[h]):
+h<e&&(m.state=Qe,m.timer.stop(),m.on.call("cancel",t,t.__data__,m.index,m.group),delete r[h])}if(Qn(function(){n.state===Ke&&(n.state=Zi,n.timer.restart(s,n.delay,
n.time),s(u))}),n.state=er,n.on.call("start",t,t.__data__,n.index,n.group),n.state===er){for(n.state=Ke,i=new Array(f=n.tween.length),h=0,d=-1;h<f;++h)(m=n.tween[h].
value.call(t,t.__data__,n.index,n.group))&&(i[++d]=m);i.length=d+1}}function s(u){for(var h=u<n.duration?n.ease.call(null,u/n.duration):(n.timer.restart(l),n.state=
nr,1),d=-1,f=i.length;++d<f;)i[d].call(t,h);n.state===nr&&(n.on.call("end",t,t.__data__,n.index,n.group),l())}function l(){n.state=Qe,n.timer.stop(),delete r[e];
for(var u in r)return;delete t.__transition}}function he(t,e){var n=t.__transition,r,i,o=!0,a;if(n){e=e==null?null:e+"";for(a in n){if((r=n[a]).name!==e){o=!1;continue}
i=r.state>er&&r.state<nr,r.state=Qe,r.timer.stop(),r.on.call(i?"interrupt":"cancel",t,t.__data__,r.index,r.group),delete n[a]}o&&delete t.__transition}}function xu(t){
return this.each(function(){he(this,t)})}function ku(t,e){var n,r;return function(){var i=ht(this,t),o=i.tween;if(o!==n){r=n=o;for(var a=0,s=r.length;a<s;++a)if(r[a].
name===e){r=r.slice(),r.splice(a,1);break}}i.tween=r}}function Mu(t,e,n){var r,i;if(typeof n!="function")throw new Error;return function(){var o=ht(this,t),a=o.
tween;if(a!==r){i=(r=a).slice();for(var s={name:e,value:n},l=0,u=i.length;l<u;++l)if(i[l].name===e){i[l]=s;break}l===u&&i.push(s)}o.tween=i}}function $u(t,e){var n=this.
_id;if(t+="",arguments.length<2){for(var r=st(this.node(),n).tween,i=0,o=r.length,a;i<o;++i)if((a=r[i]).name===t)return a.value;return null}return this.each((e==
null?ku:Mu)(n,t,e))}function ir(t,e,n){var r=t._id;return t.each(function(){var i=ht(this,r);(i.value||(i.value={}))[e]=n.apply(this,arguments)}),function(i){return st(
i,r).value[e]}}function ji(t,e){var n;return(typeof e=="number"?nt:e instanceof bt?se:(n=bt(e))?(e=n,se):Gn)(t,e)}function Nu(t){return function(){this.removeAttribute(
t)}}function Au(t){return function(){this.removeAttributeNS(t.space,t.local)}}function Su(t,e,n){var r,i=n+"",o;return function(){var a=this.getAttribute(t);return a===
i?null:a===r?o:o=e(r=a,n)}}function Eu(t,e,n){var r,i=n+"",o;return function(){var a=this.getAttributeNS(t.space,t.local);return a===i?null:a===r?o:o=e(r=a,n)}}
function Tu(t,e,n){var r,i,o;return function(){var a,s=n(this),l;return s==null?void this.removeAttribute(t):(a=this.getAttribute(t),l=s+"",a===l?null:a===r&&l===
i?o:(i=l,o=e(r=a,s)))}}function Cu(t,e,n){var r,i,o;return function(){var a,s=n(this),l;return s==null?void this.removeAttributeNS(t.space,t.local):(a=this.getAttributeNS(
t.space,t.local),l=s+"",a===l?null:a===r&&l===i?o:(i=l,o=e(r=a,s)))}}function Iu(t,e){var n=ee(t),r=n==="transform"?Li:ji;return this.attrTween(t,typeof e=="fun\
ction"?(n.local?Cu:Tu)(n,r,ir(this,"attr."+t,e)):e==null?(n.local?Au:Nu)(n):(n.local?Eu:Su)(n,r,e))}function zu(t,e){return function(n){this.setAttribute(t,e.call(
this,n))}}function Ou(t,e){return function(n){this.setAttributeNS(t.space,t.local,e.call(this,n))}}function Pu(t,e){var n,r;function i(){var o=e.apply(this,arguments);
return o!==r&&(n=(r=o)&&Ou(t,o)),n}return i._value=e,i}function Du(t,e){var n,r;function i(){var o=e.apply(this,arguments);return o!==r&&(n=(r=o)&&zu(t,o)),n}return i.
_value=e,i}function Fu(t,e){var n="attr."+t;if(arguments.length<2)return(n=this.tween(n))&&n._value;if(e==null)return this.tween(n,null);if(typeof e!="function")
throw new Error;var r=ee(t);return this.tween(n,(r.local?Pu:Du)(r,e))}function Ru(t,e){return function(){rr(this,t).delay=+e.apply(this,arguments)}}function qu(t,e){
return e=+e,function(){rr(this,t).delay=e}}function Lu(t){var e=this._id;return arguments.length?this.each((typeof t=="function"?Ru:qu)(e,t)):st(this.node(),e).
delay}function Bu(t,e){return function(){ht(this,t).duration=+e.apply(this,arguments)}}function Hu(t,e){return e=+e,function(){ht(this,t).duration=e}}function Uu(t){
var e=this._id;return arguments.length?this.each((typeof t=="function"?Bu:Hu)(e,t)):st(this.node(),e).duration}function Vu(t,e){if(typeof e!="function")throw new Error;
return function(){ht(this,t).ease=e}}function Xu(t){var e=this._id;return arguments.length?this.each(Vu(e,t)):st(this.node(),e).ease}function Wu(t,e){return function(){
var n=e.apply(this,arguments);if(typeof n!="function")throw new Error;ht(this,t).ease=n}}function Gu(t){if(typeof t!="function")throw new Error;return this.each(
Wu(this._id,t))}function Yu(t){typeof t!="function"&&(t=Cn(t));for(var e=this._groups,n=e.length,r=new Array(n),i=0;i<n;++i)for(var o=e[i],a=o.length,s=r[i]=[],
l,u=0;u<a;++u)(l=o[u])&&t.call(l,l.__data__,u,o)&&s.push(l);return new xt(r,this._parents,this._name,this._id)}function Ku(t){if(t._id!==this._id)throw new Error;
for(var e=this._groups,n=t._groups,r=e.length,i=n.length,o=Math.min(r,i),a=new Array(r),s=0;s<o;++s)for(var l=e[s],u=n[s],h=l.length,d=a[s]=new Array(h),f,m=0;m<
h;++m)(f=l[m]||u[m])&&(d[m]=f);for(;s<r;++s)a[s]=e[s];return new xt(a,this._parents,this._name,this._id)}function Qu(t){return(t+"").trim().split(/^|\s+/).every(
function(e){var n=e.indexOf(".");return n>=0&&(e=e.slice(0,n)),!e||e==="start"})}function Zu(t,e,n){var r,i,o=Qu(e)?rr:ht;return function(){var a=o(this,t),s=a.
on;s!==r&&(i=(r=s).copy()).on(e,n),a.on=i}}function Ju(t,e){var n=this._id;return arguments.length<2?st(this.node(),n).on.on(t):this.each(Zu(n,t,e))}function ju(t){
return function(){var e=this.parentNode;for(var n in this.__transition)if(+n!==t)return;e&&e.removeChild(this)}}function tl(){return this.on("end.remove",ju(this.
_id))}function el(t){var e=this._name,n=this._id;typeof t!="function"&&(t=Te(t));for(var r=this._groups,i=r.length,o=new Array(i),a=0;a<i;++a)for(var s=r[a],l=s.
length,u=o[a]=new Array(l),h,d,f=0;f<l;++f)(h=s[f])&&(d=t.call(h,h.__data__,f,s))&&("__data__"in h&&(d.__data__=h.__data__),u[f]=d,Ze(u[f],e,n,f,u,st(h,n)));return new xt(
o,this._parents,e,n)}function nl(t){var e=this._name,n=this._id;typeof t!="function"&&(t=Tn(t));for(var r=this._groups,i=r.length,o=[],a=[],s=0;s<i;++s)for(var l=r[s],
u=l.length,h,d=0;d<u;++d)if(h=l[d]){for(var f=t.call(h,h.__data__,d,l),m,g=st(h,n),w=0,b=f.length;w<b;++w)(m=f[w])&&Ze(m,e,n,w,f,g);o.push(f),a.push(h)}return new xt(
o,a,e,n)}var rl=Tt.prototype.constructor;function il(){return new rl(this._groups,this._parents)}function ol(t,e){var n,r,i;return function(){var o=Et(this,t),a=(this.
style.removeProperty(t),Et(this,t));return o===a?null:o===n&&a===r?i:i=e(n=o,r=a)}}function to(t){return function(){this.style.removeProperty(t)}}function al(t,e,n){
var r,i=n+"",o;return function(){var a=Et(this,t);return a===i?null:a===r?o:o=e(r=a,n)}}function sl(t,e,n){var r,i,o;return function(){var a=Et(this,t),s=n(this),
l=s+"";return s==null&&(l=s=(this.style.removeProperty(t),Et(this,t))),a===l?null:a===r&&l===i?o:(i=l,o=e(r=a,s))}}function ul(t,e){var n,r,i,o="style."+e,a="en\
d."+o,s;return function(){var l=ht(this,t),u=l.on,h=l.value[o]==null?s||(s=to(e)):void 0;(u!==n||i!==h)&&(r=(n=u).copy()).on(a,i=h),l.on=r}}function ll(t,e,n){var r=(t+=
"")=="transform"?qi:ji;return e==null?this.styleTween(t,ol(t,r)).on("end.style."+t,to(t)):typeof e=="function"?this.styleTween(t,sl(t,r,ir(this,"style."+t,e))).
each(ul(this._id,t)):this.styleTween(t,al(t,r,e),n).on("end.style."+t,null)}function cl(t,e,n){return function(r){this.style.setProperty(t,e.call(this,r),n)}}function fl(t,e,n){
var r,i;function o(){var a=e.apply(this,arguments);return a!==i&&(r=(i=a)&&cl(t,a,n)),r}return o._value=e,o}function hl(t,e,n){var r="style."+(t+="");if(arguments.
length<2)return(r=this.tween(r))&&r._value;if(e==null)return this.tween(r,null);if(typeof e!="function")throw new Error;return this.tween(r,fl(t,e,n??""))}function dl(t){
return function(){this.textContent=t}}function ml(t){return function(){var e=t(this);this.textContent=e??""}}function pl(t){return this.tween("text",typeof t=="\
function"?ml(ir(this,"text",t)):dl(t==null?"":t+""))}function gl(t){return function(e){this.textContent=t.call(this,e)}}function _l(t){var e,n;function r(){var i=t.
apply(this,arguments);return i!==n&&(e=(n=i)&&gl(i)),e}return r._value=t,r}function yl(t){var e="text";if(arguments.length<1)return(e=this.tween(e))&&e._value;if(t==
null)return this.tween(e,null);if(typeof t!="function")throw new Error;return this.tween(e,_l(t))}function vl(){for(var t=this._name,e=this._id,n=eo(),r=this._groups,
i=r.length,o=0;o<i;++o)for(var a=r[o],s=a.length,l,u=0;u<s;++u)if(l=a[u]){var h=st(l,e);Ze(l,t,n,u,a,{time:h.time+h.delay+h.duration,delay:0,duration:h.duration,
ease:h.ease})}return new xt(r,this._parents,t,n)}function bl(){var t,e,n=this,r=n._id,i=n.size();return new Promise(function(o,a){var s={value:a},l={value:function(){
--i===0&&o()}};n.each(function(){var u=ht(this,r),h=u.on;h!==t&&(e=(t=h).copy(),e._.cancel.push(s),e._.interrupt.push(s),e._.end.push(l)),u.on=e}),i===0&&o()})}
var wl=0;function xt(t,e,n,r){this._groups=t,this._parents=e,this._name=n,this._id=r}function xl(t){return Tt().transition(t)}function eo(){return++wl}var wt=Tt.
prototype;xt.prototype=xl.prototype={constructor:xt,select:el,selectAll:nl,selectChild:wt.selectChild,selectChildren:wt.selectChildren,filter:Yu,merge:Ku,selection:il,
transition:vl,call:wt.call,nodes:wt.nodes,node:wt.node,size:wt.size,empty:wt.empty,each:wt.each,on:Ju,attr:Iu,attrTween:Fu,style:ll,styleTween:hl,text:pl,textTween:yl,
remove:tl,tween:$u,delay:Lu,duration:Uu,ease:Xu,easeVarying:Gu,end:bl,[Symbol.iterator]:wt[Symbol.iterator]};var kl={time:null,delay:0,duration:250,ease:Ki};function Ml(t,e){
for(var n;!(n=t.__transition)||!(n=n[e]);)if(!(t=t.parentNode))throw new Error(`transition ${e} not found`);return n}function $l(t){var e,n;t instanceof xt?(e=t.
_id,t=t._name):(e=eo(),(n=kl).time=Ge(),t=t==null?null:t+"");for(var r=this._groups,i=r.length,o=0;o<i;++o)for(var a=r[o],s=a.length,l,u=0;u<s;++u)(l=a[u])&&Ze(
l,t,e,u,a,n||Ml(l,e));return new xt(r,this._parents,t,e)}Tt.prototype.interrupt=xu;Tt.prototype.transition=$l;var Je=t=>()=>t;function Nl(t,{sourceEvent:e,target:n,transform:r,dispatch:i}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},sourceEvent:{
value:e,enumerable:!0,configurable:!0},target:{value:n,enumerable:!0,configurable:!0},transform:{value:r,enumerable:!0,configurable:!0},_:{value:i}})}function kt(t,e,n){
this.k=t,this.x=e,this.y=n}kt.prototype={constructor:kt,scale:function(t){return t===1?this:new kt(this.k*t,this.x,this.y)},translate:function(t,e){return t===0&
e===0?this:new kt(this.k,this.x+this.k*t,this.y+this.k*e)},apply:function(t){return[t[0]*this.k+this.x,t[1]*this.k+this.y]},applyX:function(t){return t*this.k+this.
x},applyY:function(t){return t*this.k+this.y},invert:function(t){return[(t[0]-this.x)/this.k,(t[1]-this.y)/this.k]},invertX:function(t){return(t-this.x)/this.k},
invertY:function(t){return(t-this.y)/this.k},rescaleX:function(t){return t.copy().domain(t.range().map(this.invertX,this).map(t.invert,t))},rescaleY:function(t){
return t.copy().domain(t.range().map(this.invertY,this).map(t.invert,t))},toString:function(){return"translate("+this.x+","+this.y+") scale("+this.k+")"}};var Dt=new kt(
1,0,0);Al.prototype=kt.prototype;function Al(t){for(;!t.__zoom;)if(!(t=t.parentNode))return Dt;return t.__zoom}function or(t){t.stopImmediatePropagation()}function de(t){
t.preventDefault(),t.stopImmediatePropagation()}function Sl(t){return(!t.ctrlKey||t.type==="wheel")&&!t.button}function El(){var t=this;return t instanceof SVGElement?
(t=t.ownerSVGElement||t,t.hasAttribute("viewBox")?(t=t.viewBox.baseVal,[[t.x,t.y],[t.x+t.width,t.y+t.height]]):[[0,0],[t.width.baseVal.value,t.height.baseVal.value]]):
[[0,0],[t.clientWidth,t.clientHeight]]}function no(){return this.__zoom||Dt}function Tl(t){return-t.deltaY*(t.deltaMode===1?.05:t.deltaMode?1:.002)*(t.ctrlKey?10:
1)}function Cl(){return navigator.maxTouchPoints||"ontouchstart"in this}function Il(t,e,n){var r=t.invertX(e[0][0])-n[0][0],i=t.invertX(e[1][0])-n[1][0],o=t.invertY(
e[0][1])-n[0][1],a=t.invertY(e[1][1])-n[1][1];return t.translate(i>r?(r+i)/2:Math.min(0,r)||Math.max(0,i),a>o?(o+a)/2:Math.min(0,o)||Math.max(0,a))}function ro(){
var t=Sl,e=El,n=Il,r=Tl,i=Cl,o=[0,1/0],a=[[-1/0,-1/0],[1/0,1/0]],s=250,l=Bi,u=ne("start","zoom","end"),h,d,f,m=500,g=150,w=0,b=10;function _(p){p.property("__zo\
om",no).on("wheel.zoom",K,{passive:!1}).on("mousedown.zoom",J).on("dblclick.zoom",B).filter(i).on("touchstart.zoom",j).on("touchmove.zoom",I).on("touchend.zoom \
touchcancel.zoom",dt).style("-webkit-tap-highlight-color","rgba(0,0,0,0)")}_.transform=function(p,x,y,k){var A=p.selection?p.selection():p;A.property("__zoom",no),
p!==A?O(p,x,y,k):A.interrupt().each(function(){T(this,arguments).event(k).start().zoom(null,typeof x=="function"?x.apply(this,arguments):x).end()})},_.scaleBy=function(p,x,y,k){
_.scaleTo(p,function(){var A=this.__zoom.k,E=typeof x=="function"?x.apply(this,arguments):x;return A*E},y,k)},_.scaleTo=function(p,x,y,k){_.transform(p,function(){
var A=e.apply(this,arguments),E=this.__zoom,S=y==null?N(A):typeof y=="function"?y.apply(this,arguments):y,R=E.invert(S),H=typeof x=="function"?x.apply(this,arguments):
x;return n(v(M(E,H),S,R),A,a)},y,k)},_.translateBy=function(p,x,y,k){_.transform(p,function(){return n(this.__zoom.translate(typeof x=="function"?x.apply(this,arguments):
x,typeof y=="function"?y.apply(this,arguments):y),e.apply(this,arguments),a)},null,k)},_.translateTo=function(p,x,y,k,A){_.transform(p,function(){var E=e.apply(
this,arguments),S=this.__zoom,R=k==null?N(E):typeof k=="function"?k.apply(this,arguments):k;return n(Dt.translate(R[0],R[1]).scale(S.k).translate(typeof x=="fun\
ction"?-x.apply(this,arguments):-x,typeof y=="function"?-y.apply(this,arguments):-y),E,a)},k,A)};function M(p,x){return x=Math.max(o[0],Math.min(o[1],x)),x===p.
k?p:new kt(x,p.x,p.y)}function v(p,x,y){var k=x[0]-y[0]*p.k,A=x[1]-y[1]*p.k;return k===p.x&&A===p.y?p:new kt(p.k,k,A)}function N(p){return[(+p[0][0]+ +p[1][0])/
2,(+p[0][1]+ +p[1][1])/2]}function O(p,x,y,k){p.on("start.zoom",function(){T(this,arguments).event(k).start()}).on("interrupt.zoom end.zoom",function(){T(this,arguments).
event(k).end()}).tween("zoom",function(){var A=this,E=arguments,S=T(A,E).event(k),R=e.apply(A,E),H=y==null?N(R):typeof y=="function"?y.apply(A,E):y,ut=Math.max(
R[1][0]-R[0][0],R[1][1]-R[0][1]),G=A.__zoom,rt=typeof x=="function"?x.apply(A,E):x,mt=l(G.invert(H).concat(ut/G.k),rt.invert(H).concat(ut/rt.k));return function(it){
if(it===1)it=rt;else{var pt=mt(it),gn=ut/pt[2];it=new kt(gn,H[0]-pt[0]*gn,H[1]-pt[1]*gn)}S.zoom(null,it)}})}function T(p,x,y){return!y&&p.__zooming||new q(p,x)}
function q(p,x){this.that=p,this.args=x,this.active=0,this.sourceEvent=null,this.extent=e.apply(p,x),this.taps=0}q.prototype={event:function(p){return p&&(this.
sourceEvent=p),this},start:function(){return++this.active===1&&(this.that.__zooming=this,this.emit("start")),this},zoom:function(p,x){return this.mouse&&p!=="mo\
use"&&(this.mouse[1]=x.invert(this.mouse[0])),this.touch0&&p!=="touch"&&(this.touch0[1]=x.invert(this.touch0[0])),this.touch1&&p!=="touch"&&(this.touch1[1]=x.invert(
this.touch1[0])),this.that.__zoom=x,this.emit("zoom"),this},end:function(){return--this.active===0&&(delete this.that.__zooming,this.emit("end")),this},emit:function(p){
var x=Z(this.that).datum();u.call(p,this.that,new Nl(p,{sourceEvent:this.sourceEvent,target:_,transform:this.that.__zoom,dispatch:u}),x)}};function K(p,...x){if(!t.
apply(this,arguments))return;var y=T(this,x).event(p),k=this.__zoom,A=Math.max(o[0],Math.min(o[1],k.k*Math.pow(2,r.apply(this,arguments)))),E=yt(p);if(y.wheel)(y.
mouse[0][0]!==E[0]||y.mouse[0][1]!==E[1])&&(y.mouse[1]=k.invert(y.mouse[0]=E)),clearTimeout(y.wheel);else{if(k.k===A)return;y.mouse=[E,k.invert(E)],he(this),y.start()}
de(p),y.wheel=setTimeout(S,g),y.zoom("mouse",n(v(M(k,A),y.mouse[0],y.mouse[1]),y.extent,a));function S(){y.wheel=null,y.end()}}function J(p,...x){if(f||!t.apply(
this,arguments))return;var y=p.currentTarget,k=T(this,x,!0).event(p),A=Z(p.view).on("mousemove.zoom",H,!0).on("mouseup.zoom",ut,!0),E=yt(p,y),S=p.clientX,R=p.clientY;
ai(p.view),or(p),k.mouse=[E,this.__zoom.invert(E)],he(this),k.start();function H(G){if(de(G),!k.moved){var rt=G.clientX-S,mt=G.clientY-R;k.moved=rt*rt+mt*mt>w}k.
event(G).zoom("mouse",n(v(k.that.__zoom,k.mouse[0]=yt(G,y),k.mouse[1]),k.extent,a))}function ut(G){A.on("mousemove.zoom mouseup.zoom",null),si(G.view,k.moved),de(
G),k.event(G).end()}}function B(p,...x){if(t.apply(this,arguments)){var y=this.__zoom,k=yt(p.changedTouches?p.changedTouches[0]:p,this),A=y.invert(k),E=y.k*(p.shiftKey?
.5:2),S=n(v(M(y,E),k,A),e.apply(this,x),a);de(p),s>0?Z(this).transition().duration(s).call(O,S,k,p):Z(this).call(_.transform,S,k,p)}}function j(p,...x){if(t.apply(
this,arguments)){var y=p.touches,k=y.length,A=T(this,x,p.changedTouches.length===k).event(p),E,S,R,H;for(or(p),S=0;S<k;++S)R=y[S],H=yt(R,this),H=[H,this.__zoom.
invert(H),R.identifier],A.touch0?!A.touch1&&A.touch0[2]!==H[2]&&(A.touch1=H,A.taps=0):(A.touch0=H,E=!0,A.taps=1+!!h);h&&(h=clearTimeout(h)),E&&(A.taps<2&&(d=H[0],
h=setTimeout(function(){h=null},m)),he(this),A.start())}}function I(p,...x){if(this.__zooming){var y=T(this,x).event(p),k=p.changedTouches,A=k.length,E,S,R,H;for(de(
p),E=0;E<A;++E)S=k[E],R=yt(S,this),y.touch0&&y.touch0[2]===S.identifier?y.touch0[0]=R:y.touch1&&y.touch1[2]===S.identifier&&(y.touch1[0]=R);if(S=y.that.__zoom,y.
touch1){var ut=y.touch0[0],G=y.touch0[1],rt=y.touch1[0],mt=y.touch1[1],it=(it=rt[0]-ut[0])*it+(it=rt[1]-ut[1])*it,pt=(pt=mt[0]-G[0])*pt+(pt=mt[1]-G[1])*pt;S=M(S,
Math.sqrt(it/pt)),R=[(ut[0]+rt[0])/2,(ut[1]+rt[1])/2],H=[(G[0]+mt[0])/2,(G[1]+mt[1])/2]}else if(y.touch0)R=y.touch0[0],H=y.touch0[1];else return;y.zoom("touch",
n(v(S,R,H),y.extent,a))}}function dt(p,...x){if(this.__zooming){var y=T(this,x).event(p),k=p.changedTouches,A=k.length,E,S;for(or(p),f&&clearTimeout(f),f=setTimeout(
function(){f=null},m),E=0;E<A;++E)S=k[E],y.touch0&&y.touch0[2]===S.identifier?delete y.touch0:y.touch1&&y.touch1[2]===S.identifier&&delete y.touch1;if(y.touch1&&
!y.touch0&&(y.touch0=y.touch1,delete y.touch1),y.touch0)y.touch0[1]=this.__zoom.invert(y.touch0[0]);else if(y.end(),y.taps===2&&(S=yt(S,this),Math.hypot(d[0]-S[0],
d[1]-S[1])<b)){var R=Z(this).on("dblclick.zoom");R&&R.apply(this,arguments)}}}return _.wheelDelta=function(p){return arguments.length?(r=typeof p=="function"?p:
Je(+p),_):r},_.filter=function(p){return arguments.length?(t=typeof p=="function"?p:Je(!!p),_):t},_.touchable=function(p){return arguments.length?(i=typeof p=="\
function"?p:Je(!!p),_):i},_.extent=function(p){return arguments.length?(e=typeof p=="function"?p:Je([[+p[0][0],+p[0][1]],[+p[1][0],+p[1][1]]]),_):e},_.scaleExtent=
function(p){return arguments.length?(o[0]=+p[0],o[1]=+p[1],_):[o[0],o[1]]},_.translateExtent=function(p){return arguments.length?(a[0][0]=+p[0][0],a[1][0]=+p[1][0],
a[0][1]=+p[0][1],a[1][1]=+p[1][1],_):[[a[0][0],a[0][1]],[a[1][0],a[1][1]]]},_.constrain=function(p){return arguments.length?(n=p,_):n},_.duration=function(p){return arguments.
length?(s=+p,_):s},_.interpolate=function(p){return arguments.length?(l=p,_):l},_.on=function(){var p=u.on.apply(u,arguments);return p===u?_:p},_.clickDistance=
function(p){return arguments.length?(w=(p=+p)*p,_):Math.sqrt(w)},_.tapDistance=function(p){return arguments.length?(b=+p,_):b},_}function me(t,e){return t==null||e==null?NaN:t<e?-1:t>e?1:t>=e?0:NaN}function zl(t,e){return t==null||e==null?NaN:e<t?-1:e>t?1:e>=t?0:NaN}function io(t){let e,n,
r;t.length!==2?(e=me,n=(s,l)=>me(t(s),l),r=(s,l)=>t(s)-l):(e=t===me||t===zl?t:Ol,n=t,r=t);function i(s,l,u=0,h=s.length){if(u<h){if(e(l,l)!==0)return h;do{let d=u+
h>>>1;n(s[d],l)<0?u=d+1:h=d}while(u<h)}return u}function o(s,l,u=0,h=s.length){if(u<h){if(e(l,l)!==0)return h;do{let d=u+h>>>1;n(s[d],l)<=0?u=d+1:h=d}while(u<h)}
return u}function a(s,l,u=0,h=s.length){let d=i(s,l,u,h-1);return d>u&&r(s[d-1],l)>-r(s[d],l)?d-1:d}return{left:i,center:a,right:o}}function Ol(){return 0}function Pl(t){
return t===null?NaN:+t}var oo=io(me),ao=oo.right,Xf=oo.left,Wf=io(Pl).center;var Gf=so(uo),Yf=so(Dl);function so(t){return function(e,n,r=n){if(!((n=+n)>=0))throw new RangeError("invalid rx");if(!((r=+r)>=0))throw new RangeError("invalid\
 ry");let{data:i,width:o,height:a}=e;if(!((o=Math.floor(o))>=0))throw new RangeError("invalid width");if(!((a=Math.floor(a!==void 0?a:i.length/o))>=0))throw new RangeError(
"invalid height");if(!o||!a||!n&&!r)return e;let s=n&&t(n),l=r&&t(r),u=i.slice();return s&&l?(Xt(s,u,i,o,a),Xt(s,i,u,o,a),Xt(s,u,i,o,a),Wt(l,i,u,o,a),Wt(l,u,i,o,
a),Wt(l,i,u,o,a)):s?(Xt(s,i,u,o,a),Xt(s,u,i,o,a),Xt(s,i,u,o,a)):l&&(Wt(l,i,u,o,a),Wt(l,u,i,o,a),Wt(l,i,u,o,a)),e}}function Xt(t,e,n,r,i){for(let o=0,a=r*i;o<a;)
t(e,n,o,o+=r,1)}function Wt(t,e,n,r,i){for(let o=0,a=r*i;o<r;++o)t(e,n,o,o+a,r)}function Dl(t){let e=uo(t);return(n,r,i,o,a)=>{i<<=2,o<<=2,a<<=2,e(n,r,i+0,o+0,a),
e(n,r,i+1,o+1,a),e(n,r,i+2,o+2,a),e(n,r,i+3,o+3,a)}}function uo(t){let e=Math.floor(t);if(e===t)return Fl(t);let n=t-e,r=2*t+1;return(i,o,a,s,l)=>{if(!((s-=l)>=
a))return;let u=e*o[a],h=l*e,d=h+l;for(let f=a,m=a+h;f<m;f+=l)u+=o[Math.min(s,f)];for(let f=a,m=s;f<=m;f+=l)u+=o[Math.min(s,f+h)],i[f]=(u+n*(o[Math.max(a,f-d)]+
o[Math.min(s,f+d)]))/r,u-=o[Math.max(a,f-h)]}}function Fl(t){let e=2*t+1;return(n,r,i,o,a)=>{if(!((o-=a)>=i))return;let s=t*r[i],l=a*t;for(let u=i,h=i+l;u<h;u+=
a)s+=r[Math.min(o,u)];for(let u=i,h=o;u<=h;u+=a)s+=r[Math.min(o,u+l)],n[u]=s/e,s-=r[Math.max(i,u-l)]}}var Rl=Array.prototype,Kf=Rl.slice;var ql=Math.sqrt(50),Ll=Math.sqrt(10),Bl=Math.sqrt(2);function je(t,e,n){let r=(e-t)/Math.max(0,n),i=Math.floor(Math.log10(r)),o=r/Math.pow(10,i),a=o>=ql?10:o>=
Ll?5:o>=Bl?2:1,s,l,u;return i<0?(u=Math.pow(10,-i)/a,s=Math.round(t*u),l=Math.round(e*u),s/u<t&&++s,l/u>e&&--l,u=-u):(u=Math.pow(10,i)*a,s=Math.round(t/u),l=Math.
round(e/u),s*u<t&&++s,l*u>e&&--l),l<s&&.5<=n&&n<2?je(t,e,n*2):[s,l,u]}function en(t,e,n){if(e=+e,t=+t,n=+n,!(n>0))return[];if(t===e)return[t];let r=e<t,[i,o,a]=r?
je(e,t,n):je(t,e,n);if(!(o>=i))return[];let s=o-i+1,l=new Array(s);if(r)if(a<0)for(let u=0;u<s;++u)l[u]=(o-u)/-a;else for(let u=0;u<s;++u)l[u]=(o-u)*a;else if(a<
0)for(let u=0;u<s;++u)l[u]=(i+u)/-a;else for(let u=0;u<s;++u)l[u]=(i+u)*a;return l}function tn(t,e,n){return e=+e,t=+t,n=+n,je(t,e,n)[2]}function lo(t,e,n){e=+e,
t=+t,n=+n;let r=e<t,i=r?tn(e,t,n):tn(t,e,n);return(r?-1:1)*(i<0?1/-i:i)}var Qf=Hl(Math.random);function Hl(t){return function(n,r=0,i=n.length){let o=i-(r=+r);for(;o;){let a=t()*o--|0,s=n[o+r];n[o+r]=n[a+r],n[a+r]=s}return n}}function Ul(t){return Math.abs(t=Math.round(t))>=1e21?t.toLocaleString("en").replace(/,/g,""):t.toString(10)}function rn(t,e){if(!isFinite(t)||t===0)return null;
var n=(t=e?t.toExponential(e-1):t.toExponential()).indexOf("e"),r=t.slice(0,n);return[r.length>1?r[0]+r.slice(2):r,+t.slice(n+1)]}function Gt(t){return t=rn(Math.
abs(t)),t?t[1]:NaN}function Vl(t,e){return function(n,r){for(var i=n.length,o=[],a=0,s=t[0],l=0;i>0&&s>0&&(l+s+1>r&&(s=Math.max(1,r-l)),o.push(n.substring(i-=s,
i+s)),!((l+=s+1)>r));)s=t[a=(a+1)%t.length];return o.reverse().join(e)}}function Xl(t){return function(e){return e.replace(/[0-9]/g,function(n){return t[+n]})}}
var Wl=/^(?:(.)?([<>=^]))?([+\-( ])?([$#])?(0)?(\d+)?(,)?(\.\d+)?(~)?([a-z%])?$/i;function Yt(t){if(!(e=Wl.exec(t)))throw new Error("invalid format: "+t);var e;
return new ar({fill:e[1],align:e[2],sign:e[3],symbol:e[4],zero:e[5],width:e[6],comma:e[7],precision:e[8]&&e[8].slice(1),trim:e[9],type:e[10]})}Yt.prototype=ar.prototype;
function ar(t){this.fill=t.fill===void 0?" ":t.fill+"",this.align=t.align===void 0?">":t.align+"",this.sign=t.sign===void 0?"-":t.sign+"",this.symbol=t.symbol===
void 0?"":t.symbol+"",this.zero=!!t.zero,this.width=t.width===void 0?void 0:+t.width,this.comma=!!t.comma,this.precision=t.precision===void 0?void 0:+t.precision,
this.trim=!!t.trim,this.type=t.type===void 0?"":t.type+""}ar.prototype.toString=function(){return this.fill+this.align+this.sign+this.symbol+(this.zero?"0":"")+
(this.width===void 0?"":Math.max(1,this.width|0))+(this.comma?",":"")+(this.precision===void 0?"":"."+Math.max(0,this.precision|0))+(this.trim?"~":"")+this.type};
function Gl(t){t:for(var e=t.length,n=1,r=-1,i;n<e;++n)switch(t[n]){case".":r=i=n;break;case"0":r===0&&(r=n),i=n;break;default:if(!+t[n])break t;r>0&&(r=0);break}
return r>0?t.slice(0,r)+t.slice(i+1):t}var on;function Yl(t,e){var n=rn(t,e);if(!n)return on=void 0,t.toPrecision(e);var r=n[0],i=n[1],o=i-(on=Math.max(-8,Math.
min(8,Math.floor(i/3)))*3)+1,a=r.length;return o===a?r:o>a?r+new Array(o-a+1).join("0"):o>0?r.slice(0,o)+"."+r.slice(o):"0."+new Array(1-o).join("0")+rn(t,Math.
max(0,e+o-1))[0]}function co(t,e){var n=rn(t,e);if(!n)return t+"";var r=n[0],i=n[1];return i<0?"0."+new Array(-i).join("0")+r:r.length>i+1?r.slice(0,i+1)+"."+r.
slice(i+1):r+new Array(i-r.length+2).join("0")}var fo={"%":(t,e)=>(t*100).toFixed(e),b:t=>Math.round(t).toString(2),c:t=>t+"",d:Ul,e:(t,e)=>t.toExponential(e),f:(t,e)=>t.
toFixed(e),g:(t,e)=>t.toPrecision(e),o:t=>Math.round(t).toString(8),p:(t,e)=>co(t*100,e),r:co,s:Yl,X:t=>Math.round(t).toString(16).toUpperCase(),x:t=>Math.round(
t).toString(16)};function ho(t){return t}var mo=Array.prototype.map,po=["y","z","a","f","p","n","\xB5","m","","k","M","G","T","P","E","Z","Y"];function Kl(t){var e=t.
grouping===void 0||t.thousands===void 0?ho:Vl(mo.call(t.grouping,Number),t.thousands+""),n=t.currency===void 0?"":t.currency[0]+"",r=t.currency===void 0?"":t.currency[1]+
"",i=t.decimal===void 0?".":t.decimal+"",o=t.numerals===void 0?ho:Xl(mo.call(t.numerals,String)),a=t.percent===void 0?"%":t.percent+"",s=t.minus===void 0?"\u2212":
t.minus+"",l=t.nan===void 0?"NaN":t.nan+"";function u(d,f){d=Yt(d);var m=d.fill,g=d.align,w=d.sign,b=d.symbol,_=d.zero,M=d.width,v=d.comma,N=d.precision,O=d.trim,
T=d.type;T==="n"?(v=!0,T="g"):fo[T]||(N===void 0&&(N=12),O=!0,T="g"),(_||m==="0"&&g==="=")&&(_=!0,m="0",g="=");var q=(f&&f.prefix!==void 0?f.prefix:"")+(b==="$"?
n:b==="#"&&/[boxX]/.test(T)?"0"+T.toLowerCase():""),K=(b==="$"?r:/[%p]/.test(T)?a:"")+(f&&f.suffix!==void 0?f.suffix:""),J=fo[T],B=/[defgprs%]/.test(T);N=N===void 0?
6:/[gprs]/.test(T)?Math.max(1,Math.min(21,N)):Math.max(0,Math.min(20,N));function j(I){var dt=q,p=K,x,y,k;if(T==="c")p=J(I)+p,I="";else{I=+I;var A=I<0||1/I<0;if(I=
isNaN(I)?l:J(Math.abs(I),N),O&&(I=Gl(I)),A&&+I==0&&w!=="+"&&(A=!1),dt=(A?w==="("?w:s:w==="-"||w==="("?"":w)+dt,p=(T==="s"&&!isNaN(I)&&on!==void 0?po[8+on/3]:"")+
p+(A&&w==="("?")":""),B){for(x=-1,y=I.length;++x<y;)if(k=I.charCodeAt(x),48>k||k>57){p=(k===46?i+I.slice(x+1):I.slice(x))+p,I=I.slice(0,x);break}}}v&&!_&&(I=e(I,
1/0));var E=dt.length+I.length+p.length,S=E<M?new Array(M-E+1).join(m):"";switch(v&&_&&(I=e(S+I,S.length?M-p.length:1/0),S=""),g){case"<":I=dt+I+p+S;break;case"\
=":I=dt+S+I+p;break;case"^":I=S.slice(0,E=S.length>>1)+dt+I+p+S.slice(E);break;default:I=S+dt+I+p;break}return o(I)}return j.toString=function(){return d+""},j}
function h(d,f){var m=Math.max(-8,Math.min(8,Math.floor(Gt(f)/3)))*3,g=Math.pow(10,-m),w=u((d=Yt(d),d.type="f",d),{suffix:po[8+m/3]});return function(b){return w(
g*b)}}return{format:u,formatPrefix:h}}var nn,an,sr;Ql({thousands:",",grouping:[3],currency:["$",""]});function Ql(t){return nn=Kl(t),an=nn.format,sr=nn.formatPrefix,
nn}function go(t){return Math.max(0,-Gt(Math.abs(t)))}function _o(t,e){return Math.max(0,Math.max(-8,Math.min(8,Math.floor(Gt(e)/3)))*3-Gt(Math.abs(t)))}function yo(t,e){
return t=Math.abs(t),e=Math.abs(e)-t,Math.max(0,Gt(e)-Gt(t))+1}function ko(t,e){switch(arguments.length){case 0:break;case 1:this.range(t);break;default:this.range(e).domain(t);break}return this}function Zl(t){return function(){return t}}function Jl(t){return+t}var vo=[0,1];function Kt(t){return t}function ur(t,e){return(e-=t=+t)?function(n){return(n-t)/
e}:Zl(isNaN(e)?NaN:.5)}function jl(t,e){var n;return t>e&&(n=t,t=e,e=n),function(r){return Math.max(t,Math.min(e,r))}}function tc(t,e,n){var r=t[0],i=t[1],o=e[0],
a=e[1];return i<r?(r=ur(i,r),o=n(a,o)):(r=ur(r,i),o=n(o,a)),function(s){return o(r(s))}}function ec(t,e,n){var r=Math.min(t.length,e.length)-1,i=new Array(r),o=new Array(
r),a=-1;for(t[r]<t[0]&&(t=t.slice().reverse(),e=e.slice().reverse());++a<r;)i[a]=ur(t[a],t[a+1]),o[a]=n(e[a],e[a+1]);return function(s){var l=ao(t,s,1,r)-1;return o[l](
i[l](s))}}function Mo(t,e){return e.domain(t.domain()).range(t.range()).interpolate(t.interpolate()).clamp(t.clamp()).unknown(t.unknown())}function $o(){var t=vo,
e=vo,n=He,r,i,o,a=Kt,s,l,u;function h(){var f=Math.min(t.length,e.length);return a!==Kt&&(a=jl(t[0],t[f-1])),s=f>2?ec:tc,l=u=null,d}function d(f){return f==null||
isNaN(f=+f)?o:(l||(l=s(t.map(r),e,n)))(r(a(f)))}return d.invert=function(f){return a(i((u||(u=s(e,t.map(r),nt)))(f)))},d.domain=function(f){return arguments.length?
(t=Array.from(f,Jl),h()):t.slice()},d.range=function(f){return arguments.length?(e=Array.from(f),h()):e.slice()},d.rangeRound=function(f){return e=Array.from(f),
n=Di,h()},d.clamp=function(f){return arguments.length?(a=f?!0:Kt,h()):a!==Kt},d.interpolate=function(f){return arguments.length?(n=f,h()):n},d.unknown=function(f){
return arguments.length?(o=f,d):o},function(f,m){return r=f,i=m,h()}}function nc(){return $o()(Kt,Kt)}function rc(t,e,n,r){var i=lo(t,e,n),o;switch(r=Yt(r??",f"),
r.type){case"s":{var a=Math.max(Math.abs(t),Math.abs(e));return r.precision==null&&!isNaN(o=_o(i,a))&&(r.precision=o),sr(r,a)}case"":case"e":case"g":case"p":case"\
r":{r.precision==null&&!isNaN(o=yo(i,Math.max(Math.abs(t),Math.abs(e))))&&(r.precision=o-(r.type==="e"));break}case"f":case"%":{r.precision==null&&!isNaN(o=go(i))&&
(r.precision=o-(r.type==="%")*2);break}}return an(r)}function ic(t){var e=t.domain;return t.ticks=function(n){var r=e();return en(r[0],r[r.length-1],n??10)},t.tickFormat=
function(n,r){var i=e();return rc(i[0],i[i.length-1],n??10,r)},t.nice=function(n){n==null&&(n=10);var r=e(),i=0,o=r.length-1,a=r[i],s=r[o],l,u,h=10;for(s<a&&(u=
a,a=s,s=u,u=i,i=o,o=u);h-- >0;){if(u=tn(a,s,n),u===l)return r[i]=a,r[o]=s,e(r);if(u>0)a=Math.floor(a/u)*u,s=Math.ceil(s/u)*u;else if(u<0)a=Math.ceil(a*u)/u,s=Math.
floor(s*u)/u;else break;l=u}return t},t}function sn(){var t=nc();return t.copy=function(){return Mo(t,sn())},ko.apply(t,arguments),ic(t)}function oc(t,e){t=t.slice();var n=0,r=t.length-1,i=t[n],o=t[r],a;return o<i&&(a=n,n=r,r=a,a=i,i=o,o=a),t[n]=e.floor(i),t[r]=e.ceil(o),t}function bo(t){return Math.
log(t)}function wo(t){return Math.exp(t)}function ac(t){return-Math.log(-t)}function sc(t){return-Math.exp(-t)}function uc(t){return isFinite(t)?+("1e"+t):t<0?0:
t}function lc(t){return t===10?uc:t===Math.E?Math.exp:e=>Math.pow(t,e)}function cc(t){return t===Math.E?Math.log:t===10&&Math.log10||t===2&&Math.log2||(t=Math.log(
t),e=>Math.log(e)/t)}function xo(t){return(e,n)=>-t(-e,n)}function fc(t){let e=t(bo,wo),n=e.domain,r=10,i,o;function a(){return i=cc(r),o=lc(r),n()[0]<0?(i=xo(i),
o=xo(o),t(ac,sc)):t(bo,wo),e}return e.base=function(s){return arguments.length?(r=+s,a()):r},e.domain=function(s){return arguments.length?(n(s),a()):n()},e.ticks=
s=>{let l=n(),u=l[0],h=l[l.length-1],d=h<u;d&&([u,h]=[h,u]);let f=i(u),m=i(h),g,w,b=s==null?10:+s,_=[];if(!(r%1)&&m-f<b){if(f=Math.floor(f),m=Math.ceil(m),u>0){
for(;f<=m;++f)for(g=1;g<r;++g)if(w=f<0?g/o(-f):g*o(f),!(w<u)){if(w>h)break;_.push(w)}}else for(;f<=m;++f)for(g=r-1;g>=1;--g)if(w=f>0?g/o(-f):g*o(f),!(w<u)){if(w>
h)break;_.push(w)}_.length*2<b&&(_=en(u,h,b))}else _=en(f,m,Math.min(m-f,b)).map(o);return d?_.reverse():_},e.tickFormat=(s,l)=>{if(s==null&&(s=10),l==null&&(l=
r===10?"s":","),typeof l!="function"&&(!(r%1)&&(l=Yt(l)).precision==null&&(l.trim=!0),l=an(l)),s===1/0)return l;let u=Math.max(1,r*s/e.ticks().length);return h=>{
let d=h/o(Math.round(i(h)));return d*r<r-.5&&(d*=r),d<=u?l(h):""}},e.nice=()=>n(oc(n(),{floor:s=>o(Math.floor(i(s))),ceil:s=>o(Math.ceil(i(s)))})),e}function un(){
let t=fc($o()).domain([1,10]);return t.copy=()=>Mo(t,un()).base(t.base()),ko.apply(t,arguments),t}var[ln,pe,cn,lr,cr]=[520,240,48,34,10];function fn({rows:t,limits:e,pick:n}){let r=t.filter(f=>f.intensity&&f.gflops);if(!r.length)return c("p",{class:"note",children:"\
No node of these multiplies matrices."});let i=e.reading.at(-1)[1],o=Math.max(...e.reading.map(([,f])=>f)),a=r.map(f=>f.intensity),s=un([Math.min(.1,...a)/2,Math.
max(100,...a)*2],[cn,ln-10]),l=un([Math.min(e.gflops/100,...r.map(f=>f.gflops))/2,e.gflops*2],[pe-lr,cr]),[u,h]=s.domain(),d=f=>{let m=e.gflops/f;return`M${s(u)}\
 ${l(Math.max(l.domain()[0],Math.min(e.gflops,u*f)))}L${s(Math.min(h,Math.max(u,m)))} ${l(e.gflops)}H${s(h)}`};return c("figure",{children:[c("svg",{class:"plot",
viewBox:`0 0 ${ln} ${pe}`,role:"group","aria-label":"Roofline: GFLOP/s by floating-point operations for each byte",children:[s.ticks(4).filter(f=>Number.isInteger(
Math.log10(f))).map(f=>c("g",{class:"tick",children:[c("path",{d:`M${s(f)} ${cr}V${pe-lr}`}),c("text",{x:s(f),y:pe-lr+14,"text-anchor":"middle",children:L(f)})]},
`x${f}`)),l.ticks(4).filter(f=>Number.isInteger(Math.log10(f))).map(f=>c("g",{class:"tick",children:[c("path",{d:`M${cn} ${l(f)}H${ln-10}`}),c("text",{x:cn-6,y:l(
f)+4,"text-anchor":"end",children:L(f)})]},`y${f}`)),c("path",{class:"roof",d:d(o)}),c("path",{class:"roof memory",d:d(i)}),r.map(f=>c("circle",{cx:s(f.intensity),
cy:l(f.gflops),r:4+8*Math.sqrt(f.share??0),onClick:n&&(()=>n(f.index)),class:n?"pick":"",children:c("title",{children:`${z(X(f),60)}: ${L(f.gflops)} GFLOP/s at ${L(
f.intensity)} FLOP/byte`})},f.index)),c("text",{class:"axis",x:ln-10,y:pe-4,"text-anchor":"end",children:"FLOP for each byte"}),c("text",{class:"axis",x:cn,y:cr+
2,dx:"4",dy:"8",children:"GFLOP/s"})]}),c("figcaption",{class:"note",children:["Limits measured on this machine: ",L(e.gflops)," GFLOP/s; reading ",L(o)," GB/s \
from the first cache, ",L(i)," GB/s from memory (the lower line)."]})]})}var hc=[{id:"time",name:"time",value:t=>t.took},{id:"bytes",name:"bytes of weights",value:t=>t.weights_bytes},{id:"work",name:"multiply-adds",value:t=>t.multiply_adds},
{id:"error",name:"error",value:t=>t.error},{id:"none",name:"nothing",value:()=>null}],hr=.42,hn=.5,fr=4;function Ao({subject:t,picked:e,setPicked:n}){let r=hc.filter(
h=>h.id==="none"||t.rows.some(d=>h.value(d))),[i,o]=Q(r[0]),[a,s]=Q(""),l=lt(()=>a?t.rows.filter(h=>`${X(h)} ${h.kernelName}`.toLowerCase().includes(a.toLowerCase())):
[],[a,t]);return c(F,{children:[c("form",{class:"tools",onSubmit:h=>{if(h.preventDefault(),!l.length)return;let d=l.findIndex(f=>f.index===e);n(l[(d+1)%l.length].
index)},children:[c("label",{children:["colour by ",c("select",{value:i.id,onChange:h=>o(r.find(d=>d.id===h.currentTarget.value)),children:r.map(h=>c("option",{
value:h.id,children:h.name},h.id))})]}),c("label",{children:["Find ",c("input",{type:"search",value:a,onInput:h=>s(h.currentTarget.value)})]}),c("button",{type:"\
submit",disabled:!l.length,children:"Next"}),c("span",{class:"note","aria-live":"polite",children:a?`${l.length} nodes`:`${C(t.rows.length)} nodes, in the order\
 in which they run`})]}),c("div",{class:"graph",children:[c(dc,{subject:t,colour:i,picked:e,setPicked:n,found:l}),e===null?c("p",{class:"card note side",children:"\
A box is a kernel with the model's nodes that it computes. Click one; drag moves the picture, the wheel or two fingers scale it."}):c(gc,{subject:t,row:t.rows[e],
setPicked:n})]})]})}function dc({subject:t,colour:e,picked:n,setPicked:r,found:i}){let{picture:o,rows:a}=t,s=Se(null),l=Se(null),u=Se(null),[h,d]=Q({x:0,y:0,width:1e9,
height:1e9,words:!0}),f=lt(()=>Math.max(...a.map(v=>e.value(v)??0),0),[a,e]),m=lt(()=>_c(t),[t]),g=lt(()=>new Set(i.map(v=>v.index)),[i]);te(()=>{let v=s.current,
N=null,O=({transform:q})=>{l.current.setAttribute("transform",q);let[K,J]=[v.clientWidth/q.k,v.clientHeight/q.k],[B,j]=[-q.x/q.k,-q.y/q.k],I=q.k>=hr;N&&N.words===
I&&B>=N.x&&j>=N.y&&B+K<=N.x+N.width&&j+J<=N.y+N.height&&K>N.width/6||(N={x:B-hn*K,y:j-hn*J,width:(1+2*hn)*K,height:(1+2*hn)*J,words:I},d(N))},T=ro().scaleExtent(
[.005,3]).on("zoom",O);return u.current=T,Z(v).call(T).on("dblclick.zoom",null),Z(v).call(T.transform,No(v,o,n===null?null:o.nodes[n])),()=>Z(v).on(".zoom",null)},
[t]),te(()=>{if(n===null)return;let[v,N]=o.nodes[n],O=s.current.__zoom,[T,q]=O.apply([v,N]);(T<60||q<30||T>s.current.clientWidth-60||q>s.current.clientHeight-30||
O.k<hr)&&Z(s.current).call(u.current.transform,No(s.current,o,[v,N]))},[n]);let w=([v,N,O,T])=>v+O/2>h.x&&v-O/2<h.x+h.width&&N+T/2>h.y&&N-T/2<h.y+h.height,b=a.filter(
v=>w(o.nodes[v.index])),_=v=>Z(s.current).call(u.current.scaleBy,v);return c("div",{class:"canvas",children:[c("svg",{ref:s,role:"group","aria-label":"Graph of \
the kernels; up and down go from node to node, plus and minus scale",tabIndex:0,onKeyDown:v=>{let N={ArrowDown:1,ArrowUp:-1}[v.key];if(N&&n!==null)r(Math.min(a.
length-1,Math.max(0,n+N)));else if(v.key==="+"||v.key==="-")_(v.key==="+"?1.4:1/1.4);else return;v.preventDefault()},children:c("g",{ref:l,children:[t.control.map(
(v,N)=>c(pc,{row:v,picture:o},N)),c("path",{class:"edges",d:m.forward}),c("path",{class:"edges back",d:m.back}),n!==null&&c("path",{class:"edges own",d:m.own(n)}),
b.map(v=>c(mc,{row:v,place:o.nodes[v.index],words:h.words,heat:f?(e.value(v)??0)/f:0,picked:v.index===n,marked:g.has(v.index),pick:()=>r(v.index),time:t.time},v.
index))]})}),c("div",{class:"scale",children:[c("button",{type:"button",onClick:()=>_(1.4),"aria-label":"Larger",children:"+"}),c("button",{type:"button",onClick:()=>_(
1/1.4),"aria-label":"Smaller",children:"\u2212"}),c("button",{type:"button",onClick:()=>Z(s.current).call(u.current.transform,So(s.current,o)),children:"All"})]})]})}
function mc({row:t,place:[e,n,r,i],words:o,heat:a,picked:s,marked:l,pick:u,time:h}){let d=t.sources.length>fr?[...t.sources.slice(0,fr),`and ${t.sources.length-
fr} more`]:t.sources,f=`node ${t.index}: ${z(X(t),80)}`;return c("g",{class:`node${s?" picked":""}${l?" marked":""}`,transform:`translate(${e-r/2} ${n-i/2})`,onClick:u,
"data-node":t.index,children:[c("title",{children:`${f}
${$(t.kernelName)}`}),c("rect",{width:r,height:i,rx:o?6:2,style:{"--heat":`${Math.round(100*Math.sqrt(a))*(o?.55:1)}%`}}),o&&c(F,{children:[c("text",{class:"hea\
d",x:"10",y:"18",children:z(t.kernelName,24)}),c("text",{class:"took",x:r-10,y:"18",children:h&&t.took!==null?_t(h,t.took):""}),c("text",{class:"shape",x:"10",y:"\
34",children:[t.device?`${z(t.device,10)} `:"",t.share===null?"":ot(t.share)]}),d.map((m,g)=>c("text",{class:"source",x:"10",y:50+15*g-2,children:z(m,30)},g))]})]})}
function pc({row:t,picture:e}){let n=e.nodes.slice(t.nodes[0],t.nodes.at(-1));if(!n.length)return null;let r=Math.min(...n.map(([s,,l])=>s-l/2))-16,i=Math.max(...n.
map(([s,,l])=>s+l/2))+16,o=Math.min(...n.map(([,s,,l])=>s-l/2))-24,a=Math.max(...n.map(([,s,,l])=>s+l/2))+10;return c("g",{class:"region",children:[c("rect",{x:r,
y:o,width:i-r,height:a-o,rx:"10"}),c("text",{x:r+10,y:o+16,children:`${t.op} ${z(t.name,30)}${t.count?`, ${C(t.count)} times`:""}`})]})}function gc({subject:t,row:e,
setPicked:n}){let{tensors:r,kernels:i,time:o}=t,a=i[e.kernel],s=t.rows.filter(d=>d.kernel===e.kernel),l=t.links.filter(([,d])=>d===e.index).map(([d])=>d),u=t.links.
filter(([d])=>d===e.index).map(([,d])=>d),h=d=>d.map((f,m)=>c("span",{children:[m?", ":"",c("button",{type:"button",class:"link",onClick:()=>n(f),children:f})]},
m));return c("section",{class:"card side","aria-live":"polite",children:[c("h2",{title:$(X(e)),children:z(X(e),60)}),c("dl",{class:"plain",children:[c("div",{children:[
c("dt",{children:"node"}),c("dd",{children:[e.index,e.device?` on ${$(e.device)}`:"","; reads ",l.length?h(l):"no other",", read by ",u.length?h(u):"no other"]})]}),
o&&c("div",{children:[c("dt",{children:o.unit==="ns"?"time":"counted"}),c("dd",{children:[_t(o,e.took),", ",ot(e.share)," of the run"]})]}),c("div",{children:[c(
"dt",{children:"work"}),c("dd",{children:[e.multiply_adds?`${C(e.multiply_adds)} multiply-adds`:"no products",e.moved_bytes?`; reads and writes ${P(e.moved_bytes)}`:
""]})]}),e.gflops||e.gbytes?c("div",{children:[c("dt",{children:"rate"}),c("dd",{children:[[e.gflops&&`${L(e.gflops)} GFLOP/s`,e.gbytes&&`${L(e.gbytes)} GB/s`].
filter(Boolean).join(", "),e.roof!==null?`; ${ot(e.roof,0)} of what ${e.bound==="memory"?"memory":"the multipliers"} can do here`:""]})]}):null,c("div",{children:[
c("dt",{children:"weights, code"}),c("dd",{children:[P(e.weights_bytes)||"?",", ",P(e.code_bytes)||"not known"]})]}),e.error!==null&&c("div",{children:[c("dt",{
children:"error"}),c("dd",{children:[L(e.error)," of the largest"]})]}),c("div",{children:[c("dt",{children:"tasks"}),c("dd",{children:$(e.tasks)})]})]}),e.intensity&&
o?.limits?c(fn,{rows:[e],limits:o.limits}):null,c("h3",{children:"Nodes of the model"}),c("ul",{class:"names",children:[e.sources.map((d,f)=>c("li",{children:$(
d)},f)),!e.sources.length&&c("li",{children:$(e.name)})]}),(e.inputs.length>0||e.outputs.length>0)&&c(F,{children:[c("h3",{children:"Tensors"}),c("ul",{class:"n\
ames",children:[e.inputs.map(d=>c("li",{children:["reads ",c("b",{children:$(r[d].name)})," ",$(St(r[d]))]},`i${d}`)),e.outputs.map(d=>c("li",{children:["writes\
 ",c("b",{children:$(r[d].name)})," ",$(St(r[d]))]},`o${d}`))]})]}),c("h3",{children:"Schedule"}),a.schedule===null?c("p",{class:"note",children:"A bundle does \
not hold the schedules of its kernels: a report on the model has them."}):a.schedule.length?c("ol",{class:"steps",children:a.schedule.map((d,f)=>c("li",{title:$(
d.step),children:$(d.words)},f))}):c("p",{class:"note",children:"The kernel is written as a loop program, or as it is."}),c("h3",{children:[$(a.name),s.length>1?
`, shared by ${s.length} nodes`:""]}),a.source?c("pre",{tabIndex:0,"aria-label":"C of the kernel",children:c("code",{children:a.source})}):c("p",{class:"note",children:"\
kernels.c is not in the bundle."})]})}function No(t,e,n){let[r,i]=[t.clientWidth||600,t.clientHeight||400];if(n)return Dt.translate(r/2-n[0]*.8,i/2-n[1]*.8).scale(
.8);let o=So(t,e);if(o.k>=hr)return o;let a=Math.max(.5,Math.min(.9,r/(e.width+40))),[s]=e.nodes[0]??[0];return Dt.translate(r/2-s*a,30).scale(a)}function So(t,e){
let[n,r]=[t.clientWidth||600,t.clientHeight||400],i=Math.min(1,(n-40)/Math.max(1,e.width),(r-50)/Math.max(1,e.height));return Dt.translate((n-e.width*i)/2,25).scale(
i)}function _c({picture:t,links:e}){let n=e.filter(([,,,s])=>!s),r=s=>{let[l,...u]=s,h=`M${l[0]} ${l[1]}`,[d,f]=l;for(let[m,g]of u){let w=(f+g)/2;h+=d===m?`V${g}`:
`C${d} ${w} ${m} ${w} ${m} ${g}`,[d,f]=[m,g]}return h},i=t.edges.map(r),o=e.filter(([,,,s])=>s).map(([s,l])=>{let[[u,h,d],[f,m,g]]=[t.nodes[s],t.nodes[l]],w=Math.
max(u+d/2,f+g/2)+40;return`M${u+d/2} ${h}C${w} ${h} ${w} ${m} ${f+g/2} ${m}`}),a=s=>n.map(([l,u],h)=>l===s||u===s?i[h]:"").join("");return{forward:i.join(""),back:o.
join(""),own:a}}var[dn,dr,mn,yc,vc]=[900,340,70,30,10];function Eo({subject:t,pick:e}){let{memory:n}=t;return c(F,{children:[t.flash.length>0&&c(xc,{rows:t.flash}),n?c(bc,{subject:t,
memory:n,pick:e}):c("p",{class:"card",children:"This bundle was written by a version that did not note where tensors lie. Compile it again."})]})}function bc({subject:t,
memory:e,pick:n}){let{peak:r,pools:i,blocks:o}=e,[a,s]=Q(null),l=a===null?null:o[a];return c(F,{children:[c("p",{class:"lead",children:[P(e.arena_bytes)," of ar\
ena",e.live_bytes?`; ${P(e.live_bytes)} are alive at one time, which no plan can undercut`:"",e.scratch_bytes?`; ${P(e.scratch_bytes)} of scratch for each threa\
d`:"","."]}),i.map((u,h)=>c("section",{class:"card",children:[c("h2",{children:i.length>1?`Memory ${$(u.name)}`:"The arena"}),c("div",{class:"plotted",tabIndex:0,
role:"region","aria-label":u.name,children:c(wc,{subject:t,memory:e,pool:h,size:u.bytes,chosen:a,choose:s})}),c("p",{class:"note","aria-live":"polite",children:l&&
l.pool===h?c(F,{children:[l.tensors.map(d=>$(`${t.tensors[d].name} ${St(t.tensors[d])}`)).join(", then "),": ",C(l.bytes)," bytes at ",C(l.offset),", nodes ",l.
first," to ",l.last,". ",c("button",{type:"button",class:"link",onClick:()=>n(l.first),children:["Show node ",l.first]})]}):"From left to right: the nodes, in t\
heir order. Upwards: the bytes. A block is a tensor from the node that makes it to the last that reads it; click one for its name."})]},h)),r&&c("section",{class:"\
card",children:[c("h2",{children:"What decides the peak"}),c("p",{children:["At node ",r.node,", ",c("button",{type:"button",class:"link",onClick:()=>n(r.node),
children:z(X(t.rows[r.node]),60)}),", ",P(r.bytes)," are needed at once:"]}),c(Y,{caption:"Alive at the peak",rows:r.blocks.map(u=>({...o[u],key:u})),first:{column:1,
down:!0},columns:[{name:"tensor",value:u=>u.tensors.map(h=>t.tensors[h].name).join(", "),show:u=>z(u.tensors.map(h=>t.tensors[h].name).join(", "),60)},{name:"by\
tes",value:u=>u.bytes,show:u=>C(u.bytes),number:!0},{name:"from node",value:u=>u.first,number:!0},{name:"to node",value:u=>u.last,number:!0}]})]}),c("section",{
class:"card",children:[c("h2",{children:"What else would give"}),e.choices.length?c("table",{children:[c("thead",{children:c("tr",{children:[c("th",{scope:"col",
children:"choice"}),c("th",{scope:"col",class:"number",children:"bytes"}),c("th",{scope:"col",class:"number",children:"change"}),c("th",{scope:"col",class:"numb\
er",children:"multiply-adds"})]})}),c("tbody",{children:e.choices.map((u,h)=>c("tr",{children:[c("td",{class:"text",children:$(u.text)}),c("td",{class:"number",
children:C(u.bytes)}),c("td",{class:"number",children:Rt(u.bytes/Math.max(1,e.arena_bytes)-1)}),c("td",{class:"number",children:u.multiply_adds?Rt(u.multiply_adds/
Math.max(1,t.totals.multiply_adds)-1):""})]},h))})]}):c("p",{class:"note",children:["No other order of the nodes was found that needs less",t.kind==="firmware"?
"; a report on the model says what --max-ram would give":"","."]})]})]})}function wc({subject:t,memory:e,pool:n,size:r,chosen:i,choose:o}){let a=t.rows.length,s=sn(
[0,Math.max(1,a)],[mn,dn-10]),l=sn([0,Math.max(1,r)],[dr-yc,vc]),u=e.blocks.map((m,g)=>[m,g]).filter(([m])=>m.pool===n),h=e.pools.length===1,d=e.alive.map((m,g)=>`${g?
"L":"M"}${s(g)} ${l(m)}H${s(g+1)}`).join(""),f=Math.max(1,Math.round(a/10));return c("svg",{class:"plot",viewBox:`0 0 ${dn} ${dr}`,role:"group","aria-label":"Te\
nsors by address and lifetime",children:[l.ticks(6).map(m=>c("g",{class:"tick",children:[c("path",{d:`M${mn} ${l(m)}H${dn-10}`}),c("text",{x:mn-6,y:l(m)+4,"text\
-anchor":"end",children:P(m)})]},m)),t.rows.filter((m,g)=>g%f===0).map(m=>c("text",{class:"axis",x:s(m.index),y:dr-12,children:m.index},m.index)),u.map(([m,g])=>c(
"rect",{class:`block tone${g%6}${i===g?" picked":""}`,x:s(m.first),width:Math.max(1,s(m.last+1)-s(m.first)-.5),y:l(m.offset+m.bytes),height:Math.max(1,l(m.offset)-
l(m.offset+m.bytes)-.5),onClick:()=>o(g),children:c("title",{children:[z(m.tensors.map(w=>t.tensors[w].name).join(", "),80),": ",P(m.bytes)]})},g)),h&&c("path",
{class:"alive",d}),h&&e.live_bytes?c("g",{class:"bound",children:c("path",{d:`M${mn} ${l(e.live_bytes)}H${dn-10}`})}):null]})}function xc({rows:t}){let e=t.reduce(
(r,i)=>r+i.bytes,0)||1,n=0;return c("section",{class:"card",children:[c("h2",{children:["Flash: ",P(e)]}),c("svg",{class:"strip",viewBox:"0 0 1000 40",preserveAspectRatio:"\
none",role:"group","aria-label":"Flash by section",children:t.map((r,i)=>{let[o,a]=[1e3*n/e,1e3*r.bytes/e];return n+=r.bytes,c("rect",{class:`block tone${i%6}`,
x:o,width:a,height:"40",children:c("title",{children:[$(`${r.section} ${r.what}`),": ",P(r.bytes)]})},i)})}),c(Y,{caption:"Flash by section",rows:t.map((r,i)=>({
...r,key:i})),first:{column:2,down:!0},columns:[{name:"section",value:r=>r.section},{name:"what",value:r=>r.what,show:r=>$(r.what)},{name:"bytes",value:r=>r.bytes,
show:r=>C(r.bytes),number:!0}]})]})}function To(t){let{nodes:e,kernels:n,time:r,numbers:i}=t,o=r?r.nodes.reduce((l,u)=>l+u,0)||1:null,a=new Map((i?.layers??[]).filter(l=>l.node!==null).map(l=>[l.node,
l])),s=e.map((l,u)=>{let h=r?r.nodes[u]:null,d=l.multiply_adds&&l.moved_bytes?2*l.multiply_adds/l.moved_bytes:null,f=r?r.rates[u]:{gflops:null,gbytes:null,roof:null,
bound:null};return{...l,...f,index:u,intensity:d,kernelName:n[l.kernel].name,took:h,share:h===null?null:h/o,error:a.get(u)?.error??null}});return{...t,rows:s,total:o}}
var Co=(t,e)=>[...t].filter(n=>n.took).sort((n,r)=>r.took-n.took).slice(0,e);var pn=(t,e,n)=>({name:t,value:e,show:r=>(n??L)(e(r)),number:!0});function zo({subject:t,pick:e}){let{numbers:n}=t;return n?c(F,{children:[c("p",{class:"lead",children:[
C(n.samples)," ",n.samples===1?"sample":"samples","; layers beside ",$(n.reference),n.trade?`; ${$(n.trade)}`:"","."]}),c("section",{class:"card",children:[c("h\
2",{children:"Outputs"}),c(Y,{caption:"Outputs",rows:n.outputs.map((r,i)=>({...r,key:i})),first:{column:1,down:!0},columns:[{name:"output",value:r=>r.name,show:r=>z(
r.name)},...Io,{name:"beside",value:r=>r.reference,show:r=>$(r.reference)}]})]}),c("section",{class:"card",children:[c("h2",{children:"Layers, the worst first"}),
n.layers.length?c(Y,{caption:"Error of every layer",rows:n.layers.map((r,i)=>({...r,key:i})),first:{column:1,down:!0},onPick:r=>r.node!==null&&e(r.node),columns:[
{name:"tensor",value:r=>r.name,show:r=>c("span",{title:$(r.name),children:z(r.name)}),pick:!0},...Io,{name:"node",value:r=>r.node,number:!0},{name:"nodes of the\
 model",value:r=>r.sources.join(", "),show:r=>z(r.sources.join(", "))}]}):c("p",{class:"note",children:"No tensor between kernels is in both."})]}),n.ranges.length>
0&&c("section",{class:"card",children:[c("h2",{children:"Ranges of quantized tensors"}),c("p",{class:"note",children:"How often each part of the range was met; \
the ends are where values are clipped."}),c("div",{class:"ranges",children:n.ranges.map((r,i)=>c(kc,{row:r},i))})]})]}):c("p",{class:"card",children:["No number\
s were compared. ",c("code",{children:"sterna report MODEL --data samples.npz"})," compares every layer with the reference on these samples."]})}var Io=[pn("lar\
gest error",t=>t.error),pn("mean error",t=>t.mean),pn("cosine",t=>t.cosine,t=>t===null?"":t.toFixed(6)),pn("largest value",t=>t.largest)];function kc({row:t}){let e=Math.
max(...t.counts,1);return c("figure",{class:"range",children:[c("figcaption",{title:$(t.name),children:[z(t.name,30)," ",c("small",{children:[t.dtype,"; ",C(t.least),
" to ",C(t.greatest),"; ",ot(t.clipped,2)," at the ends",t.scale?`; scale ${L(t.scale)}`:""]})]}),c("svg",{viewBox:`0 0 ${t.counts.length*10} 60`,preserveAspectRatio:"\
none",role:"img","aria-label":`Histogram of ${z(t.name,60)}`,children:t.counts.map((n,r)=>c("rect",{class:r===0||r===t.counts.length-1?"end":"",x:10*r,width:"9",
y:60-58*n/e,height:58*n/e},r))})]})}function Oo({subject:t,go:e,pick:n}){let{time:r,totals:i,memory:o}=t;return c(F,{children:[c("dl",{class:"facts",children:[c(Ft,{name:"target",value:$(t.target.
name??""),note:$(t.target.triple??"")}),c(Ft,{name:"size",value:P(t.bytes),note:`${t.files.length} files; weights ${P(t.weights_bytes)}${t.code_bytes?`, code ${P(
t.code_bytes)}`:""}`}),o&&c(Ft,{name:"arena",value:P(o.arena_bytes),note:o.live_bytes?`live-set lower bound ${P(o.live_bytes)}`:""}),i&&c(Ft,{name:"multiply-add\
s",value:C(i.multiply_adds),note:$c(i.sizes)}),c(Ft,{name:"nodes",value:C(t.nodes.length),note:`${C(t.kernels.length)} kernels`}),r?c(Ft,{name:r.unit==="ns"?"ti\
me of a run":"instructions of a run",value:_t(r,r.median),note:mr(r)}):c(Ft,{name:"time",value:"not measured",note:"--time measures it"})]}),r&&c("section",{class:"\
card",children:[c("h2",{children:"Where the time goes"}),c("ol",{class:"hot",children:Co(t.rows,5).map(a=>c("li",{children:[c("button",{type:"button",class:"lin\
k",onClick:()=>n(a.index),title:$(X(a)),children:z(X(a),40)}),c("span",{class:"bar","aria-hidden":"true",children:c("i",{style:{width:`${100*a.share}%`}})}),c("\
span",{class:"number",children:ot(a.share)}),c("span",{class:"number",children:_t(r,a.took)})]},a.index))}),c("p",{class:"note",children:["A name opens the node\
 in the graph. ",c("button",{type:"button",class:"link",onClick:()=>e("time"),children:"All nodes by time"})]})]}),c("section",{class:"card",children:[c("h2",{children:"\
Signature"}),c("div",{class:"scroll",tabIndex:0,role:"region","aria-label":"Signature",children:c("table",{children:[c("thead",{children:c("tr",{children:[c("th",
{scope:"col",children:"side"}),c("th",{scope:"col",children:"name"}),c("th",{scope:"col",children:"type"}),c("th",{scope:"col",children:"meaning"})]})}),c("tbod\
y",{children:["inputs","outputs"].flatMap(a=>t.signature[a].map((s,l)=>c("tr",{children:[c("td",{children:a.slice(0,-1)}),c("td",{class:"text",children:c("b",{title:$(
s.name),children:z(s.name)})}),c("td",{class:"text",children:z(St(s),80)}),c("td",{class:"text",children:[$(s.note),s.labels.length?c(Mc,{labels:s.labels}):""]})]},
`${a}${l}`)))})]})})]}),c("section",{class:"card",children:[c("h2",{children:"Files"}),c(Y,{caption:"Files",rows:t.files.map(a=>({...a,key:a.name})),first:{column:1,
down:!0},columns:[{name:"file",value:a=>a.name,show:a=>$(a.name)},{name:"bytes",value:a=>a.bytes,show:a=>C(a.bytes),number:!0},{name:"what",value:a=>a.role},{name:"\
hash",value:a=>a.hash,show:a=>c("code",{children:a.hash??""})}]})]}),c("section",{class:"card",children:[c("h2",{children:"Layers by size"}),c(Y,{caption:"Bytes\
 of every node",rows:t.rows,first:{column:3,down:!0},onPick:a=>n(a.index),columns:[{name:"#",value:a=>a.index,number:!0},{name:"nodes of the model",value:X,show:a=>c(
"span",{title:$(X(a)),children:z(X(a))}),pick:!0},{name:"kernel",value:a=>a.kernelName},{name:"weights",value:a=>a.weights_bytes,show:a=>C(a.weights_bytes),number:!0},
{name:"code",value:a=>a.code_bytes,show:a=>C(a.code_bytes),number:!0},{name:"multiply-adds",value:a=>a.multiply_adds,show:a=>C(a.multiply_adds),number:!0}]})]}),
c("section",{class:"card",children:[c("h2",{children:"How it was made"}),c("dl",{class:"plain",children:Nc(t).map(([a,s])=>c("div",{children:[c("dt",{children:a}),
c("dd",{children:c("code",{children:$(s)})})]},a))})]})]})}function Ft({name:t,value:e,note:n}){return c("div",{children:[c("dt",{children:t}),c("dd",{children:[
e,n?c("small",{children:n}):null]})]})}function Mc({labels:t}){return c("details",{children:[c("summary",{children:"labels"}),c("p",{class:"labels",children:t.slice(
0,1e3).map($).join(", ")})]})}var $c=t=>Object.entries(t??{}).map(([e,n])=>`${z(e,20)} = ${C(n)}`).join(", ");function mr(t){if(t.unit!=="ns")return`counted on ${$(
t.board??t.where)}, emulated${t.stack_bytes?`; stack ${C(t.stack_bytes)} B`:""}`;let e=t.threads===1?"1 thread":`${t.threads} threads`;return`median of ${t.runs}\
 runs, fastest ${$t(t.fastest)}; ${e}${t.where==="here"?"":` on ${$(t.where)}`}${t.machine?`; ${$(t.machine)}`:""}`}function Nc(t){let{options:e,source:n}=t;return[
["command",t.command],["model",t.model],["bundle",t.directory],["compiler",t.producer],["toolchain",e.toolchain],["generator",e.generator],["needs of the proces\
sor",t.target.cpu_features.join(", ")],["hash of graph.json",t.hash],["SHA-256 of the model",n?.sha256],["format of the model",n?.format],["traded for speed",t.
math&&`bound ${t.math.bound}, largest error ${t.math.error}`],["tuned kernels",t.tuning&&`${t.tuning.kernels}, snapshot ${t.tuning.snapshot}`],["budgets",t.fitted]].
filter(([,i])=>i)}function Po({subject:t,pick:e}){let{time:n,rows:r}=t,i=lt(()=>n?Ac(n):[],[n]),[o,a]=Q(!1);if(!n)return c("p",{class:"card",children:["No time was measured. ",c(
"code",{children:"sterna report BUNDLE --time"})," measures it here, with ",c("code",{children:"--on DEVICE"})," elsewhere."]});let s=n.unit==="ns";return c(F,{
children:[c("p",{class:"lead",children:[_t(n,n.median)," for a run: ",mr(n),"."]}),c("section",{class:"card",children:[c("h2",{children:"In the order of the run"}),
c(Sc,{rows:r,time:n,pick:e})]}),c("section",{class:"card",children:[c("h2",{children:"Nodes"}),c("div",{class:"tools",role:"group","aria-label":"Order",children:[
c("button",{type:"button","aria-pressed":!o,onClick:()=>a(!1),children:"By share"}),c("button",{type:"button","aria-pressed":o,onClick:()=>a(!0),children:"In or\
der"})]}),c(Y,{caption:s?"Time of every node":"Instructions of every node",rows:r,columns:i,first:o?{column:0,down:!1}:{column:3,down:!0},onPick:l=>e(l.index),words:"\
a heading sorts; a name opens the graph"},String(o)),s&&!n.limits&&c("p",{class:"note",children:"What that machine can do at most is not known: limits are measu\
red on this machine only."})]}),s&&n.limits&&c("section",{class:"card",children:[c("h2",{children:"Roofline"}),c(fn,{rows:r,limits:n.limits,pick:e})]})]})}function Ac(t){
let e=t.unit==="ns",n=e?t.median<1e5?{name:"\xB5s",size:1e3,digits:2}:{name:"ms",size:1e6,digits:4}:{name:"instructions",size:1},r=[{name:"GFLOP/s",value:o=>o.gflops,
show:o=>L(o.gflops),number:!0},{name:"GB/s",value:o=>o.gbytes,show:o=>L(o.gbytes),number:!0}],i=[{name:"% of roofline",value:o=>o.roof===null?null:100*o.roof,show:o=>ot(
o.roof,0),number:!0},{name:"bound by",value:o=>o.bound??""}];return[{name:"#",value:o=>o.index,number:!0},{name:"nodes of the model",value:X,show:o=>c("span",{title:$(
X(o)),children:z(X(o),44)}),pick:!0},{name:"kernel",value:o=>o.kernelName,show:o=>$(o.kernelName)},{name:n.name,value:o=>o.took/n.size,show:o=>e?(o.took/n.size).
toFixed(n.digits):C(o.took),number:!0},{name:"share",value:o=>o.share,show:o=>c(F,{children:[c("span",{class:"bar","aria-hidden":"true",children:c("i",{style:{width:`${100*
o.share}%`}})}),ot(o.share)]}),number:!0},...e?r:[],...e&&t.limits?i:[],{name:"multiply-adds",value:o=>o.multiply_adds,show:o=>C(o.multiply_adds),number:!0},{name:"\
moved",value:o=>o.moved_bytes,show:o=>P(o.moved_bytes),number:!0}]}function Sc({rows:t,time:e,pick:n}){let r=t.reduce((a,s)=>a+s.took,0)||1,i=0,o=Math.max(...t.
map(a=>a.took));return c("svg",{class:"strip",viewBox:"0 0 1000 40",preserveAspectRatio:"none",role:"group","aria-label":"The run from left to right; every node\
 is as wide as it is long",children:t.map(a=>{let[s,l]=[1e3*i/r,1e3*a.took/r];return i+=a.took,l<.05?null:c("rect",{x:s,width:l,height:"40",style:{"--heat":`${Math.
round(100*a.took/o)}%`},onClick:()=>n(a.index),children:c("title",{children:`${z(X(a),60)}: ${_t(e,a.took)}`})},a.index)})})}var Zt=JSON.parse(document.getElementById("data").textContent),ge=Zt.subjects.map(To),Qt=[{id:"compare",name:"Compare",show:Gr,when:()=>Zt.comparison},{id:"summ\
ary",name:"Summary",show:Oo},{id:"graph",name:"Graph",show:Ao},{id:"time",name:"Time",show:Po},{id:"memory",name:"Memory",show:Eo},{id:"numbers",name:"Numbers",
show:zo},{id:"boards",name:"Boards",show:Vr,when:()=>Zt.boards.length||Zt.targets.length}].filter(t=>!t.when||t.when()),pr=()=>Qt.find(t=>`#${t.id}`===location.
hash)??Qt[0];function Ec(){let[t,e]=Q(pr),[n,r]=Q(0),[i,o]=Q(null);te(()=>{let d=()=>e(pr());return addEventListener("hashchange",d),()=>removeEventListener("ha\
shchange",d)},[]);let a=d=>{history.replaceState(null,"",`#${d}`),e(pr())},s=(d,f=n)=>{r(f),o(d),a("graph")},l=({key:d},f)=>{let m={ArrowRight:1,ArrowLeft:-1}[d];
if(!m)return;let g=Qt[(f+m+Qt.length)%Qt.length];a(g.id),document.getElementById(`tab-${g.id}`).focus()},u=ge[n],h=t.show;return c(F,{children:[c("header",{children:[
c("h1",{title:$(u.name),children:z(u.name,40)}),c("nav",{role:"tablist","aria-label":"Parts of the report",children:Qt.map((d,f)=>c("button",{type:"button",role:"\
tab",id:`tab-${d.id}`,"aria-controls":"panel","aria-selected":d===t,tabIndex:d===t?0:-1,onClick:()=>a(d.id),onKeyDown:m=>l(m,f),children:d.name},d.id))}),ge.length>
1&&t.id!=="compare"&&c("label",{class:"which",children:["of ",c("select",{value:n,onChange:d=>(r(Number(d.currentTarget.value)),o(null)),children:ge.map((d,f)=>c(
"option",{value:f,children:z(Do(d,f),40)},f))})]})]}),c("main",{role:"tabpanel",id:"panel","aria-labelledby":`tab-${t.id}`,children:c(h,{report:Zt,subjects:ge,subject:u,
go:a,pick:s,picked:i,setPicked:o,label:Do})},`${t.id} ${n}`),c("footer",{children:["made by ",$(Zt.producer)]})]})}function Do(t,e){return`${"AB"[e]}: ${t.directory??
t.model??t.name} (${t.target.name})`}document.title=`${$(ge.map(t=>t.name).join(" and "))}: report`;Cr(c(Ec,{}),document.getElementById("app"));})();
