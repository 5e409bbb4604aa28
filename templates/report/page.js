(()=>{var Ce,S,zr,da,Nt,Cr,Rr,Pr,Nn,$e,re,Dr,En,Sn,An,ma,Se={},Ae=[],pa=/acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i,ie=Array.isArray;function _t(t,e){
for(var n in e)t[n]=e[n];return t}function Cn(t){t&&t.parentNode&&t.parentNode.removeChild(t)}function oe(t,e,n){var r,i,a,o={};for(a in e)a=="key"?r=e[a]:a=="r\
ef"?i=e[a]:o[a]=e[a];if(arguments.length>2&&(o.children=arguments.length>3?Ce.call(arguments,2):n),typeof t=="function"&&t.defaultProps!=null)for(a in t.defaultProps)
o[a]===void 0&&(o[a]=t.defaultProps[a]);return Ne(t,o,r,i,null)}function Ne(t,e,n,r,i){var a={type:t,props:e,key:n,ref:r,__k:null,__:null,__b:0,__e:null,__c:null,
constructor:void 0,__v:i??++zr,__i:-1,__u:0};return i==null&&S.vnode!=null&&S.vnode(a),a}function D(t){return t.children}function ot(t,e){this.props=t,this.context=e}function Ct(t,e){if(e==null)return t.__?Ct(t.__,t.__i+1):null;for(var n;e<t.__k.length;e++)
if((n=t.__k[e])!=null&&n.__e!=null)return n.__e;return typeof t.type=="function"?Ct(t):null}function ga(t){if(t.__P&&t.__d){var e=t.__v,n=e.__e,r=[],i=[],a=_t({},
e);a.__v=e.__v+1,S.vnode&&S.vnode(a),In(t.__P,a,e,t.__n,t.__P.namespaceURI,32&e.__u?[n]:null,r,n??Ct(e),!!(32&e.__u),i),a.__v=e.__v,a.__.__k[a.__i]=a,Hr(r,a,i),
e.__e=e.__=null,a.__e!=n&&Lr(a)}}function Lr(t){if((t=t.__)!=null&&t.__c!=null)return t.__e=t.__c.base=null,t.__k.some(function(e){if(e!=null&&e.__e!=null)return t.
__e=t.__c.base=e.__e}),Lr(t)}function Ir(t){(!t.__d&&(t.__d=!0)&&Nt.push(t)&&!Ee.__r++||Cr!=S.debounceRendering)&&((Cr=S.debounceRendering)||Rr)(Ee)}function Ee(){
try{for(var t,e=1;Nt.length;)Nt.length>e&&Nt.sort(Pr),t=Nt.shift(),e=Nt.length,ga(t)}finally{Nt.length=Ee.__r=0}}function Fr(t,e,n,r,i,a,o,s,l,u,f){var m,h,d,p,
v,b,_=r&&r.__k||Ae,$=e.length;for(l=_a(n,e,_,l,$),m=0;m<$;m++)(d=n.__k[m])!=null&&(h=d.__i!=-1&&_[d.__i]||Se,d.__i=m,b=In(t,d,h,i,a,o,s,l,u,f),p=d.__e,d.ref&&h.
ref!=d.ref&&(h.ref&&Tn(h.ref,null,d),f.push(d.ref,d.__c||p,d)),v==null&&p!=null&&(v=p),4&d.__u?(l=qr(d,l,t),h.__e&&(h.__e=null)):typeof d.type=="function"&&b!==
void 0?l=b:p&&(l=p.nextSibling),d.__u&=-7);return n.__e=v,l}function _a(t,e,n,r,i){var a,o,s,l,u,f=n.length,m=f,h=0;for(t.__k=new Array(i),a=0;a<i;a++)(o=e[a])!=
null&&typeof o!="boolean"&&typeof o!="function"?(typeof o=="string"||typeof o=="number"||typeof o=="bigint"||o.constructor==String?o=t.__k[a]=Ne(null,o,null,null,
null):ie(o)?o=t.__k[a]=Ne(D,{children:o},null,null,null):o.constructor===void 0&&o.__b>0?o=t.__k[a]=Ne(o.type,o.props,o.key,o.ref?o.ref:null,o.__v):t.__k[a]=o,l=
a+h,o.__=t,o.__b=t.__b+1,s=null,(u=o.__i=ya(o,n,l,m))!=-1&&(m--,(s=n[u])&&(s.__u|=2)),s==null||s.__v==null?(u==-1&&(i>f?h--:i<f&&h++),typeof o.type!="function"&&
(o.__u|=4)):u!=l&&(u==l-1?h--:u==l+1?h++:(u>l?h--:h++,o.__u|=4))):t.__k[a]=null;if(m)for(a=0;a<f;a++)(s=n[a])!=null&&(2&s.__u)==0&&(s.__e==r&&(r=Ct(s)),Vr(s,s));
return r}function qr(t,e,n){var r,i;if(typeof t.type=="function"){for(r=t.__k,i=0;r&&i<r.length;i++)r[i]&&(r[i].__=t,e=qr(r[i],e,n));return e}t.__e!=e&&(e&&t.type&&
!e.parentNode&&(e=Ct(t)),e=n.insertBefore(t.__e,e||null));do e=e&&e.nextSibling;while(e!=null&&e.nodeType==8);return e}function ae(t,e){return e=e||[],t==null||
typeof t=="boolean"||(ie(t)?t.some(function(n){ae(n,e)}):e.push(t)),e}function ya(t,e,n,r){var i,a,o,s=t.key,l=t.type,u=e[n],f=u!=null&&(2&u.__u)==0;if(u===null&&
s==null||f&&s==u.key&&l==u.type)return n;if(r>(f?1:0)){for(i=n-1,a=n+1;i>=0||a<e.length;)if((u=e[o=i>=0?i--:a++])!=null&&(2&u.__u)==0&&s==u.key&&l==u.type)return o}
return-1}function Tr(t,e,n){e[0]=="-"?t.setProperty(e,n??""):t[e]=n==null?"":typeof n!="number"||pa.test(e)?n:n+"px"}function Me(t,e,n,r,i){var a,o;t:if(e=="sty\
le")if(typeof n=="string")t.style.cssText=n;else{if(typeof r=="string"&&(t.style.cssText=r=""),r)for(e in r)n&&e in n||Tr(t.style,e,"");if(n)for(e in n)r&&n[e]==
r[e]||Tr(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")a=e!=(e=e.replace(Dr,"$1")),o=e.toLowerCase(),e=o in t||e=="onFocusOut"||e=="onFocusIn"?o.slice(2):e.slice(
2),t.l||(t.l={}),t.l[e+a]=n,n?r?n[re]=r[re]:(n[re]=En,t.addEventListener(e,a?An:Sn,a)):t.removeEventListener(e,a?An:Sn,a);else{if(i=="http://www.w3.org/2000/svg")
e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&
e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{t[e]=n??"";break t}catch{}typeof n=="function"||(n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(
e,e=="popover"&&n==1?"":n))}}function Or(t){return function(e){if(this.l){var n=this.l[e.type+t];if(e[$e]==null)e[$e]=En++;else if(e[$e]<n[re])return;return n(S.
event?S.event(e):e)}}}function In(t,e,n,r,i,a,o,s,l,u){var f,m,h,d,p,v,b,_,$,w,N,R,T,F,Q,J,H=e.type;if(e.constructor!==void 0)return null;128&n.__u&&(l=!!(32&n.
__u),a=[s=e.__e=n.__e]),(f=S.__b)&&f(e);t:if(typeof H=="function"){m=o.length;try{if($=e.props,w=H.prototype&&H.prototype.render,N=(f=H.contextType)&&r[f.__c],R=
f?N?N.props.value:f.__:r,n.__c?_=(h=e.__c=n.__c).__=h.__E:(w?e.__c=h=new H($,R):(e.__c=h=new ot($,R),h.constructor=H,h.render=ba),N&&N.sub(h),h.state||(h.state=
{}),h.__n=r,d=h.__d=!0,h.__h=[],h._sb=[]),w&&h.__s==null&&(h.__s=h.state),w&&H.getDerivedStateFromProps!=null&&(h.__s==h.state&&(h.__s=_t({},h.__s)),_t(h.__s,H.
getDerivedStateFromProps($,h.__s))),p=h.props,v=h.state,h.__v=e,d)w&&H.getDerivedStateFromProps==null&&h.componentWillMount!=null&&h.componentWillMount(),w&&h.componentDidMount!=
null&&h.__h.push(h.componentDidMount);else{if(w&&H.getDerivedStateFromProps==null&&$!==p&&h.componentWillReceiveProps!=null&&h.componentWillReceiveProps($,R),e.
__v==n.__v||!h.__e&&h.shouldComponentUpdate!=null&&h.shouldComponentUpdate($,h.__s,R)===!1){e.__v!=n.__v&&(h.props=$,h.state=h.__s,h.__d=!1),e.__e=n.__e,e.__k=n.
__k,e.__k.some(function(j){j&&(j.__=e)}),Ae.push.apply(h.__h,h._sb),h._sb=[],h.__h.length&&o.push(h),s=Ct(n);break t}h.componentWillUpdate!=null&&h.componentWillUpdate(
$,h.__s,R),w&&h.componentDidUpdate!=null&&h.__h.push(function(){h.componentDidUpdate(p,v,b)})}if(h.context=R,h.props=$,h.__P=t,h.__e=!1,T=S.__r,F=0,w)h.state=h.
__s,h.__d=!1,T&&T(e),f=h.render(h.props,h.state,h.context),Ae.push.apply(h.__h,h._sb),h._sb=[];else do h.__d=!1,T&&T(e),f=h.render(h.props,h.state,h.context),h.
state=h.__s;while(h.__d&&++F<25);h.state=h.__s,h.getChildContext!=null&&(r=_t(_t({},r),h.getChildContext())),w&&!d&&h.getSnapshotBeforeUpdate!=null&&(b=h.getSnapshotBeforeUpdate(
p,v)),Q=f!=null&&f.type===D&&f.key==null?Ur(f.props.children):f,s=Fr(t,ie(Q)?Q:[Q],e,n,r,i,a,o,s,l,u),h.base=e.__e,e.__u&=-161,h.__h.length&&o.push(h),_&&(h.__E=
h.__=null)}catch(j){if(o.length=m,e.__v=null,l||a!=null){if(j.then){for(e.__u|=l?160:128;s&&s.nodeType==8&&s.nextSibling;)s=s.nextSibling;a!=null&&(a[a.indexOf(
s)]=null),e.__e=s}else if(a!=null)for(J=a.length;J--;)Cn(a[J])}else e.__e=n.__e;e.__k==null&&(e.__k=n.__k||[]),j.then||Br(e),S.__e(j,e,n)}}else a==null&&e.__v==
n.__v?(e.__k=n.__k,e.__e=n.__e):s=e.__e=va(n.__e,e,n,r,i,a,o,l,u);return(f=S.diffed)&&f(e),128&e.__u?void 0:s}function Br(t){t&&(t.__c&&(t.__c.__e=!0),t.__k&&t.
__k.some(Br))}function Hr(t,e,n){for(var r=0;r<n.length;r++)Tn(n[r],n[++r],n[++r]);S.__c&&S.__c(e,t),t.some(function(i){try{t=i.__h,i.__h=[],t.some(function(a){
a.call(i)})}catch(a){S.__e(a,i.__v)}})}function Ur(t){return typeof t!="object"||t==null||t.__b>0?t:ie(t)?t.map(Ur):t.constructor!==void 0?null:_t({},t)}function va(t,e,n,r,i,a,o,s,l){
var u,f,m,h,d,p,v,b=n.props||Se,_=e.props,$=e.type;if($=="svg"?i="http://www.w3.org/2000/svg":$=="math"?i="http://www.w3.org/1998/Math/MathML":i||(i="http://www\
.w3.org/1999/xhtml"),a!=null){for(u=0;u<a.length;u++)if((d=a[u])&&"setAttribute"in d==!!$&&($?d.localName==$:d.nodeType==3)){t=d,a[u]=null;break}}if(t==null){if($==
null)return document.createTextNode(_);t=document.createElementNS(i,$,_.is&&_),s&&(S.__m&&S.__m(e,a),s=!1),a=null}if($==null)b===_||s&&t.data==_||(t.data=_);else{
if(a=$=="textarea"&&_.defaultValue!=null?null:a&&Ce.call(t.childNodes),!s&&a!=null)for(b={},u=0;u<t.attributes.length;u++)b[(d=t.attributes[u]).name]=d.value;for(u in b)
d=b[u],u=="dangerouslySetInnerHTML"?m=d:u=="children"||u in _||u=="value"&&"defaultValue"in _||u=="checked"&&"defaultChecked"in _||Me(t,u,null,d,i);for(u in _)d=
_[u],u=="children"?h=d:u=="dangerouslySetInnerHTML"?f=d:u=="value"?p=d:u=="checked"?v=d:s&&typeof d!="function"||b[u]===d||Me(t,u,d,b[u],i);if(f)s||m&&(f.__html==
m.__html||f.__html==t.innerHTML)||(t.innerHTML=f.__html),e.__k=[];else if(m&&(t.innerHTML=""),Fr(e.type=="template"?t.content:t,ie(h)?h:[h],e,n,r,$=="foreignObj\
ect"?"http://www.w3.org/1999/xhtml":i,a,o,a?a[0]:n.__k&&Ct(n,0),s,l),a!=null)for(u=a.length;u--;)Cn(a[u]);s&&$!="textarea"||(u="value",$=="progress"&&p==null?t.
removeAttribute("value"):p!=null&&(p!==t[u]||$=="progress"&&!p||$=="option"&&p!=b[u])&&Me(t,u,p,b[u],i),u="checked",v!=null&&v!=t[u]&&Me(t,u,v,b[u],i))}return t}
function Tn(t,e,n){try{if(typeof t=="function"){var r=typeof t.__u=="function";r&&t.__u(),r&&e==null||(t.__u=t(e))}else t.current=e}catch(i){S.__e(i,n)}}function Vr(t,e,n){
var r,i;if(S.unmount&&S.unmount(t),(r=t.ref)&&(r.current&&r.current!=t.__e||Tn(r,null,e)),(r=t.__c)!=null){if(r.componentWillUnmount)try{r.componentWillUnmount()}catch(a){
S.__e(a,e)}r.base=r.__P=r.__n=null}if(r=t.__k)for(i=0;i<r.length;i++)r[i]&&Vr(r[i],e,n||typeof t.type!="function");n||Cn(t.__e),t.__c=t.__=t.__e=void 0}function ba(t,e,n){
return this.constructor(t,n)}function On(t,e,n){var r,i,a,o;e==document&&(e=document.documentElement),S.__&&S.__(t,e),i=(r=typeof n=="function")?null:n&&n.__k||
e.__k,a=[],o=[],In(e,t=(!r&&n||e).__k=oe(D,null,[t]),i||Se,Se,e.namespaceURI,!r&&n?[n]:i?null:e.firstChild?Ce.call(e.childNodes):null,a,!r&&n?n:i?i.__e:e.firstChild,
r,o),Hr(a,t,o),t.props.children=null}Ce=Ae.slice,S={__e:function(t,e,n,r){for(var i,a,o;e=e.__;)if((i=e.__c)&&!i.__)try{if((a=i.constructor)&&a.getDerivedStateFromError!=null&&(i.setState(a.getDerivedStateFromError(
t)),o=i.__d),i.componentDidCatch!=null&&(i.componentDidCatch(t,r||{}),o=i.__d),o)return i.__E=i}catch(s){t=s}throw t}},zr=0,da=function(t){return t!=null&&t.constructor===
void 0},ot.prototype.setState=function(t,e){var n;n=this.__s!=null&&this.__s!=this.state?this.__s:this.__s=_t({},this.state),typeof t=="function"&&(t=t(_t({},n),
this.props)),t&&_t(n,t),t!=null&&this.__v&&(e&&this._sb.push(e),Ir(this))},ot.prototype.forceUpdate=function(t){this.__v&&(this.__e=!0,t&&this.__h.push(t),Ir(this))},
ot.prototype.render=D,Nt=[],Rr=typeof Promise=="function"?Promise.prototype.then.bind(Promise.resolve()):setTimeout,Pr=function(t,e){return t.__v.__b-e.__v.__b},
Ee.__r=0,Nn=Math.random().toString(8),$e="__d"+Nn,re="__a"+Nn,Dr=/(PointerCapture)$|Capture$/i,En=0,Sn=Or(!1),An=Or(!0),ma=0;var Ht,B,zn,Wr,Te=0,jr=[],V=S,Xr=V.__b,Gr=V.__r,Yr=V.diffed,Kr=V.__c,Qr=V.unmount,Zr=V.__;function Oe(t,e){V.__h&&V.__h(B,t,Te||e),Te=0;var n=B.__H||(B.__H={__:[],
__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function X(t){return Te=1,ti(ei,t)}function ti(t,e,n){var r=Oe(Ht++,2);if(r.t=t,!r.__c&&(r.__=[n?n(e):ei(void 0,
e),function(s){var l=r.__N?r.__N[0]:r.__[0],u=r.t(l,s);l!==u&&(r.__N=[u,r.__[1]],r.__c.setState({}))}],r.__c=B,!B.__f)){var i=function(s,l,u){if(!r.__c.__H)return!0;
var f=!1,m=r.__c.props!==s;if(r.__c.__H.__.some(function(d){if(d.__N){f=!0;var p=d.__[0];d.__=d.__N,d.__N=void 0,p!==d.__[0]&&(m=!0)}}),a){var h=a.call(this,s,l,
u);return f?h||m:h}return!f||m};B.__f=!0;var a=B.shouldComponentUpdate,o=B.componentWillUpdate;B.componentWillUpdate=function(s,l,u){if(this.__e){var f=a;a=void 0,
i(s,l,u),a=f}o&&o.call(this,s,l,u)},B.shouldComponentUpdate=i}return r.__N||r.__}function Ut(t,e){var n=Oe(Ht++,3);!V.__s&&Dn(n.__H,e)&&(n.__=t,n.u=e,B.__H.__h.
push(n))}function Pn(t,e){var n=Oe(Ht++,4);!V.__s&&Dn(n.__H,e)&&(n.__=t,n.u=e,B.__h.push(n))}function se(t){return Te=5,at(function(){return{current:t}},[])}function at(t,e){var n=Oe(Ht++,7);return Dn(n.__H,e)&&(n.__=t(),n.__H=e,n.__h=t),n.__}function wa(){for(var t;t=jr.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(Ie),e.__h.some(Rn),e.__h=[]}catch(n){e.__h=[],V.__e(n,t.__v)}}}V.__b=function(t){B=
null,Xr&&Xr(t)},V.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),Zr&&Zr(t,e)},V.__r=function(t){Gr&&Gr(t),Ht=0;var e=(B=t.__c).__H;e&&(zn===B?(e.__h=[],
B.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})):(e.__h.some(Ie),e.__h.some(Rn),e.__h=[],Ht=0)),zn=B},V.diffed=function(t){Yr&&Yr(t);var e=t.
__c;e&&e.__H&&(e.__H.__h.length&&(jr.push(e)!==1&&Wr===V.requestAnimationFrame||((Wr=V.requestAnimationFrame)||xa)(wa)),e.__H.__.some(function(n){n.u&&(n.__H=n.
u,n.u=void 0)})),zn=B=null},V.__c=function(t,e){e.some(function(n){try{n.__h.some(Ie),n.__h=n.__h.filter(function(r){return!r.__||Rn(r)})}catch(r){e.some(function(i){
i.__h&&(i.__h=[])}),e=[],V.__e(r,n.__v)}}),Kr&&Kr(t,e)},V.unmount=function(t){Qr&&Qr(t);var e,n=t.__c;n&&n.__H&&(n.__H.__.some(function(r){try{Ie(r)}catch(i){e=
i}}),n.__H=void 0,e&&V.__e(e,n.__v))};var Jr=typeof requestAnimationFrame=="function";function xa(t){var e,n=function(){clearTimeout(r),Jr&&cancelAnimationFrame(
e),setTimeout(t)},r=setTimeout(n,35);Jr&&(e=requestAnimationFrame(n))}function Ie(t){var e=B,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),B=e}function Rn(t){
var e=B;t.__c=t.__(),B=e}function Dn(t,e){return!t||t.length!==e.length||e.some(function(n,r){return n!==t[r]})}function ei(t,e){return typeof e=="function"?e(t):
e}function $a(t,e){for(var n in e)t[n]=e[n];return t}function ni(t,e){for(var n in t)if(n!=="__source"&&!(n in e))return!0;for(var r in e)if(r!=="__source"&&t[r]!==
e[r])return!0;return!1}function ri(t,e){this.props=t,this.context=e}(ri.prototype=new ot).isPureReactComponent=!0,ri.prototype.shouldComponentUpdate=function(t,e){return ni(this.props,t)||ni(this.state,e)};var ii=S.__b;S.__b=function(t){
t.type&&t.type.__f&&t.ref&&(t.props.ref=t.ref,t.ref=null),ii&&ii(t)};var Ef=typeof Symbol<"u"&&Symbol.for&&Symbol.for("react.forward_ref")||3911;var Na=S.__e;S.__e=function(t,e,n,r){if(t.then){for(var i,a=e;a=a.__;)if((i=a.__c)&&i.__c)return e.__e==null&&(e.__e=n.__e,e.__k=n.__k||[]),i.__c(t,e)}Na(t,e,n,
r)};var oi=S.unmount;function fi(t,e,n){return t&&(t.__c&&t.__c.__H&&(t.__c.__H.__.forEach(function(r){typeof r.__c=="function"&&r.__c()}),t.__c.__H=null),(t=$a(
{},t)).__c!=null&&(t.__c.__P===n&&(t.__c.__P=e),t.__c.__e=!0,t.__c=null),t.__k=t.__k&&t.__k.map(function(r){return fi(r,e,n)})),t}function hi(t,e,n){return t&&n&&
(t.__v=null,t.__k=t.__k&&t.__k.map(function(r){return hi(r,e,n)}),t.__c&&t.__c.__P===e&&(t.__e&&n.appendChild(t.__e),t.__c.__e=!0,t.__c.__P=n)),t}function Ln(){
this.__u=0,this.o=null,this.__b=null}function di(t){var e=t.__&&t.__.__c;return e&&e.__a&&e.__a(t)}function ze(){this.i=null,this.l=null}S.unmount=function(t){var e=t.__c;e&&(e.__z=!0),e&&e.__R&&e.__R(),e&&32&t.__u&&(t.type=null),oi&&oi(t)},(Ln.prototype=new ot).
__c=function(t,e){var n=e.__c,r=this;r.o==null&&(r.o=[]),r.o.push(n);var i=di(r.__v),a=!1,o=function(){a||r.__z||(a=!0,n.__R=null,i?i(l):l())};n.__R=o;var s=n.__P;
n.__P=null;var l=function(){if(!--r.__u){if(r.state.__a){var u=r.state.__a;r.__v.__k[0]=hi(u,u.__c.__P,u.__c.__O)}var f;for(r.setState({__a:r.__b=null});f=r.o.pop();)
f.__P=s,f.forceUpdate()}};r.__u++||32&e.__u||r.setState({__a:r.__b=r.__v.__k[0]}),t.then(o,o)},Ln.prototype.componentWillUnmount=function(){this.o=[]},Ln.prototype.
render=function(t,e){if(this.__b){if(this.__v.__k){var n=document.createElement("div"),r=this.__v.__k[0].__c;this.__v.__k[0]=fi(this.__b,n,r.__O=r.__P)}this.__b=
null}var i=e.__a&&oe(D,null,t.fallback);return i&&(i.__u&=-33),[oe(D,null,e.__a?null:t.children),i]};var ai=function(t,e,n){if(++n[1]===n[0]&&t.l.delete(e),t.props.
revealOrder&&(t.props.revealOrder[0]!=="t"||!t.l.size))for(n=t.i;n;){for(;n.length>3;)n.pop()();if(n[1]<n[0])break;t.i=n=n[2]}};(ze.prototype=new ot).__a=function(t){var e=this,n=di(e.__v),r=e.l.get(t);return r[0]++,function(i){var a=function(){e.props.revealOrder?(r.push(i),ai(e,t,r)):i()};
n?n(a):a()}},ze.prototype.render=function(t){this.i=null,this.l=new Map;var e=ae(t.children);t.revealOrder&&t.revealOrder[0]==="b"&&e.reverse();for(var n=e.length;n--;)
this.l.set(e[n],this.i=[1,0,this.i]);return t.children},ze.prototype.componentDidUpdate=ze.prototype.componentDidMount=function(){var t=this;this.l.forEach(function(e,n){
ai(t,n,e)})};var Sa=typeof Symbol<"u"&&Symbol.for&&Symbol.for("react.element")||60103,Aa=/^(?:accent|alignment|arabic|baseline|cap|clip(?!PathU)|color|dominant|fill|flood|font|glyph(?!R)|horiz|image(!S)|letter|lighting|marker(?!H|W|U)|overline|paint|pointer|shape|stop|strikethrough|stroke|text(?!L)|transform|underline|unicode|units|v|vector|vert|word|writing|x(?!C))[A-Z]/,
Ea=/^on(Ani|Tra|Tou|BeforeInp|Compo)/,Ca=/[A-Z0-9]/g,Ia=typeof document<"u",Ta=function(t){return(typeof Symbol<"u"&&typeof Symbol()=="symbol"?/fil|che|rad/:/fil|che|ra/).
test(t)};ot.prototype.isReactComponent=!0,["componentWillMount","componentWillReceiveProps","componentWillUpdate"].forEach(function(t){Object.defineProperty(ot.prototype,
t,{configurable:!0,get:function(){return this["UNSAFE_"+t]},set:function(e){Object.defineProperty(this,t,{configurable:!0,writable:!0,value:e})}})});var si=S.event;
S.event=function(t){return si&&(t=si(t)),t.persist=function(){},t.isPropagationStopped=function(){return this.cancelBubble},t.isDefaultPrevented=function(){return this.
defaultPrevented},t.nativeEvent=t};var mi,Oa={configurable:!0,get:function(){return this.class}},ui=S.vnode;S.vnode=function(t){typeof t.type=="string"&&(function(e){
var n=e.props,r=e.type,i={},a=r.indexOf("-")==-1;for(var o in n){var s=n[o];if(!(o==="value"&&"defaultValue"in n&&s==null||Ia&&o==="children"&&r==="noscript"||o===
"class"||o==="className")){var l=o.toLowerCase();o==="defaultValue"&&"value"in n&&n.value==null?o="value":o==="download"&&s===!0?s="":l==="translate"&&s==="no"?
s=!1:l[0]==="o"&&l[1]==="n"?l==="ondoubleclick"?o="ondblclick":l!=="onchange"||r!=="input"&&r!=="textarea"||Ta(n.type)?l==="onfocus"?o="onfocusin":l==="onblur"?
o="onfocusout":Ea.test(o)&&(o=l):l=o="oninput":a&&Aa.test(o)?o=o.replace(Ca,"-$&").toLowerCase():s===null&&(s=void 0),l==="oninput"&&i[o=l]&&(o="oninputCapture"),
i[o]=s}}r=="select"&&(i.multiple&&Array.isArray(i.value)&&(i.value=ae(n.children).forEach(function(u){u.props.selected=i.value.indexOf(u.props.value)!=-1})),i.defaultValue!=
null&&(i.value=ae(n.children).forEach(function(u){u.props.selected=i.multiple?i.defaultValue.indexOf(u.props.value)!=-1:i.defaultValue==u.props.value}))),n.class&&
!n.className?(i.class=n.class,Object.defineProperty(i,"className",Oa)):n.className&&(i.class=i.className=n.className),e.props=i})(t),t.$$typeof=Sa,ui&&ui(t)};var li=S.
__r;S.__r=function(t){li&&li(t),mi=t.__c};var ci=S.diffed;S.diffed=function(t){ci&&ci(t);var e=t.props,n=t.__e;n!=null&&t.type==="textarea"&&"value"in e&&e.value!==
n.value&&(n.value=e.value==null?"":e.value),mi=null};var pi=function(t,e){var n,r=S.debounceRendering;S.debounceRendering=function(a){n=a};try{var i=t(e);return n&&n(),i}finally{S.debounceRendering=r}};var za=/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu,M=t=>String(t).replace(za,e=>`\\u${e.codePointAt(0).toString(
16).padStart(4,"0")}`);function z(t,e=48){let n=M(t);if(n.length<=e)return n;let r=Math.ceil((e-1)*.6);return`${n.slice(0,r)}\u2026${n.slice(n.length-(e-1-r))}`}
var C=t=>t==null?"":t.toLocaleString("en-US");function P(t){return t==null?"":t<1e4?`${C(t)} B`:t<1e6?`${(t/1e3).toFixed(1)} kB`:`${(t/1e6).toFixed(1)} MB`}function St(t){
if(t==null)return"";for(let[e,n]of[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]])if(t>=e)return`${(t/e).toPrecision(3)} ${n}`;return`${Math.round(t)} ns`}var yt=(t,e)=>t.
unit==="ns"?St(e):`${C(e)} instr.`,ct=(t,e=1)=>t==null||!isFinite(t)?"":`${(100*t).toFixed(e)} %`,Re=t=>t!==null&&t>0&&t<.005?"< 1 %":ct(t,0),Fn=({op:t,count:e,
limit:n,exact:r})=>t!=="loop"?"":r?`${C(e)} times`:n&&n<2**31-1?`at most ${C(n)} times`:"as often as the data ask for",Vt=t=>t===null||!isFinite(t)?"":`${t>0?"+":
""}${(100*t).toFixed(1)} %`,q=t=>t==null?"":t===0?"0":Math.abs(t)>=.001&&Math.abs(t)<1e5?String(Number(t.toPrecision(4))):t.toExponential(2),W=t=>t.sources.length?
t.sources.join(", "):t.name,It=t=>`${t.dtype}[${t.shape===null?"\u2026":t.shape.join(", ")}]`;function qn(t){let e=t==null?"":typeof t=="number"?String(t):String(
t).replace(/^[=+\-@\t\r]/,"'$&");return/[",\r\n]/.test(e)?`"${e.replaceAll('"','""')}"`:e}var Ra=0;function c(t,e,n,r,i,a){e||(e={});var o,s,l=e;if("ref"in l)for(s in l={},e)s=="ref"?o=e[s]:l[s]=e[s];var u={type:t,props:l,key:n,ref:o,__k:null,__:null,__b:0,__e:null,
__c:null,constructor:void 0,__v:--Ra,__i:-1,__u:0,__source:i,__self:a};if(typeof t=="function"&&(o=t.defaultProps))for(s in o)l[s]===void 0&&(l[s]=o[s]);return S.
vnode&&S.vnode(u),u}function K({caption:t,columns:e,rows:n,first:r,words:i,onPick:a,picked:o}){let[s,l]=X(r??{column:0,down:!1}),[u,f]=X(""),[m,h]=X(""),d=at(()=>{let b=u.toLowerCase(),
_=b?n.filter(N=>e.some(R=>String(R.value(N)??"").toLowerCase().includes(b))):n,{value:$}=e[s.column],w=s.down?-1:1;return[..._].sort((N,R)=>w*Pa($(N),$(R)))},[n,
e,s,u]),p=()=>[e.map(b=>qn(b.name)),...d.map(b=>e.map(_=>qn(_.value(b))))].map(b=>b.join(",")).join(`\r
`);return c("div",{class:"tabled",children:[c("div",{class:"tools",children:[c("label",{children:["Filter ",c("input",{type:"search",value:u,onInput:b=>f(b.currentTarget.
value)})]}),c("button",{type:"button",onClick:async()=>h(await Da(p())?`${d.length} rows copied`:"the browser does not let this page copy"),children:"Copy as CS\
V"}),c("span",{class:"note","aria-live":"polite",children:m||(u?`${d.length} of ${n.length}`:i??"")})]}),c("div",{class:"scroll",tabIndex:0,role:"region","aria-\
label":t,children:c("table",{children:[c("caption",{class:"unseen",children:t}),c("thead",{children:c("tr",{children:e.map((b,_)=>c("th",{scope:"col",class:b.number?
"number":"","aria-sort":s.column===_?s.down?"descending":"ascending":"none",children:c("button",{type:"button",onClick:()=>l({column:_,down:s.column===_?!s.down:
!!b.number&&_>0}),children:[b.name,c("span",{"aria-hidden":"true",children:s.column===_?s.down?" \u25BE":" \u25B4":""})]})},_))})}),c("tbody",{children:d.map((b,_)=>c(
"tr",{class:o!==void 0&&o===b.index?"picked":"",children:e.map(($,w)=>c("td",{class:$.number?"number":"text",children:$.pick&&a?c("button",{type:"button",class:"\
link",onClick:()=>a(b),children:gi($,b)}):gi($,b)},w))},b.key??b.index??_))})]})})]})}var gi=(t,e)=>t.show?t.show(e):String(t.value(e)??"");function Pa(t,e){let[
n,r]=[t??-1/0,e??-1/0];return typeof n=="number"&&typeof r=="number"?n-r||0:String(t??"").localeCompare(String(e??""),"en",{numeric:!0})}async function Da(t){try{
return await navigator.clipboard.writeText(t),!0}catch{let e=document.body.appendChild(Object.assign(document.createElement("textarea"),{value:t}));e.select();let n=document.
execCommand("copy");return e.remove(),n}}function Pe({name:t}){return M(t).split("_").flatMap((e,n)=>n?["_",c("wbr",{},n),e]:[e])}function _i({report:t}){return c(D,{children:[t.boards.length>0&&c("section",{class:"card",children:[c("h2",{children:"Boards"}),c(K,{caption:"Boards",rows:t.boards.
map((e,n)=>({...e,key:n})),first:{column:0,down:!1},columns:[{name:"board",value:e=>e.board},{name:"core",value:e=>e.target},{name:"fits",value:e=>e.fits?"fits":
"does not fit",show:e=>c("span",{class:e.fits?"good":"bad",children:e.fits?"fits":"does not fit"})},{name:"flash",value:e=>e.flash_bytes,show:e=>`${P(e.flash_bytes)}\
 of ${P(e.flash_of_board)}`,number:!0},{name:"RAM",value:e=>e.ram_bytes,show:e=>`${P(e.ram_bytes)} of ${P(e.ram_of_board)}`,number:!0},{name:"stack",value:e=>e.
stack_bytes??null,show:e=>P(e.stack_bytes),number:!0},{name:"instructions",value:e=>e.instructions??null,show:e=>C(e.instructions),number:!0},{name:"ms",value:e=>e.
estimated_milliseconds??null,show:e=>e.estimated_milliseconds?Number(e.estimated_milliseconds.toPrecision(3)):"",number:!0},{name:"\xB5J",value:e=>e.estimated_microjoules??
null,show:e=>e.estimated_microjoules?Number(e.estimated_microjoules.toPrecision(3)):"",number:!0}]}),c("p",{class:"note",children:"Flash, RAM, stack and instruc\
tions are measured on an emulated core; milliseconds and microjoules are estimates from the boards' data sheets."})]}),t.targets.length>0&&c("section",{class:"c\
ard",children:[c("h2",{children:"Targets"}),c(K,{caption:"Targets",rows:t.targets.map((e,n)=>({...e,key:n})),columns:[{name:"target",value:e=>e.target,show:e=>M(
e.target)},{name:"size",value:e=>e.bytes,show:e=>P(e.bytes),number:!0},{name:"weights",value:e=>e.weights_bytes,show:e=>P(e.weights_bytes),number:!0},{name:"cod\
e",value:e=>e.code_bytes,show:e=>P(e.code_bytes),number:!0},{name:"arena",value:e=>e.arena_bytes,show:e=>P(e.arena_bytes),number:!0},{name:"nodes",value:e=>e.nodes,
show:e=>C(e.nodes),number:!0},{name:"time",value:e=>e.nanoseconds??e.instructions??null,show:e=>e.nanoseconds?St(e.nanoseconds):e.instructions?`${C(e.instructions)}\
 instr.`:"",number:!0},{name:"measured",value:e=>e.where??"",show:e=>M(e.where??"not measured")}]})]})]})}var yi=(t,e)=>t.a?.[e]&&t.b?.[e]!==null&&t.b?.[e]!==void 0?t.b[e]/t.a[e]-1:null,vi={bytes:P,duration:St,count:C,small:q};function bi({report:t,subjects:e,pick:n,
label:r}){let{comparison:i}=t,o=e.every(s=>s.time?.unit==="ns")?St:C;return c(D,{children:[c("p",{class:`verdict ${i.ok?"good":"bad"}`,role:"status",children:[c(
"b",{children:i.ok?"No limit is exceeded.":"A limit is exceeded."})," ",i.verdict.map(M).join(" ")]}),c("section",{class:"card",children:[c("h2",{children:"In s\
um"}),e.map((s,l)=>c("p",{class:"note",children:z(r(s,l),80)},l)),c("div",{class:"scroll",tabIndex:0,role:"region","aria-label":"In sum",children:c("table",{children:[
c("thead",{children:c("tr",{children:[c("th",{scope:"col",children:"what"}),c("th",{scope:"col",class:"number",children:"A"}),c("th",{scope:"col",class:"number",
children:"B"}),c("th",{scope:"col",class:"number",children:"change"})]})}),c("tbody",{children:i.totals.map(s=>c("tr",{children:[c("td",{children:M(s.what)}),c(
"td",{class:"number",children:vi[s.unit](s.a)}),c("td",{class:"number",children:vi[s.unit](s.b)}),c("td",{class:"number",children:s.a?Vt(s.b/s.a-1):""})]},s.what))})]})})]}),
i.outputs.length>0&&c("section",{class:"card",children:[c("h2",{children:"Outputs of B beside those of A"}),c(La,{rows:i.outputs})]}),c("section",{class:"card",
children:[c("h2",{children:"Layer by layer"}),c(K,{caption:"Layers of both",rows:i.layers.map((s,l)=>({...s,key:l})),first:{column:1,down:!0},onPick:s=>s.b?n(s.
b.nodes[0],1):n(s.a.nodes[0],0),columns:[{name:"nodes of the model",value:s=>s.sources.join(", "),show:s=>z(s.sources.join(", ")||s.name,44),pick:!0},{name:"tim\
e A",value:s=>s.a?.time??null,show:s=>o(s.a?.time),number:!0},{name:"time B",value:s=>s.b?.time??null,show:s=>o(s.b?.time),number:!0},{name:"time",value:s=>yi(s,
"time"),show:s=>Vt(yi(s,"time")),number:!0},{name:"weights A",value:s=>s.a?.weights_bytes??null,show:s=>C(s.a?.weights_bytes),number:!0},{name:"weights B",value:s=>s.
b?.weights_bytes??null,show:s=>C(s.b?.weights_bytes),number:!0},{name:"code A",value:s=>s.a?.code_bytes??null,show:s=>C(s.a?.code_bytes),number:!0},{name:"code \
B",value:s=>s.b?.code_bytes??null,show:s=>C(s.b?.code_bytes),number:!0},{name:"error",value:s=>s.error,show:s=>q(s.error),number:!0}]})]})]})}function La({rows:t}){
return c(K,{caption:"Outputs",rows:t.map((e,n)=>({...e,key:n})),columns:[{name:"output",value:e=>e.name,show:e=>z(e.name)},{name:"largest error",value:e=>e.error,
show:e=>q(e.error),number:!0},{name:"mean error",value:e=>e.mean,show:e=>q(e.mean),number:!0},{name:"cosine",value:e=>e.cosine,show:e=>e.cosine===null?"":e.cosine.
toFixed(6),number:!0}]})}var Bn="http://www.w3.org/1999/xhtml",wi={svg:"http://www.w3.org/2000/svg",xhtml:Bn,xlink:"http://www.w3.org/1999/xlink",xml:"http://www.w3.org/XML/1998/namespa\
ce",xmlns:"http://www.w3.org/2000/xmlns/"};function ue(t){var e=t+="",n=e.indexOf(":");return n>=0&&(e=t.slice(0,n))!=="xmlns"&&(t=t.slice(n+1)),wi.hasOwnProperty(
e)?{space:wi[e],local:t}:t}function Fa(t){return function(){var e=this.ownerDocument,n=this.namespaceURI;return n===Bn&&e.documentElement.namespaceURI===Bn?e.createElement(
t):e.createElementNS(n,t)}}function qa(t){return function(){return this.ownerDocument.createElementNS(t.space,t.local)}}function xi(t){var e=ue(t);return(e.local?
qa:Fa)(e)}function Ba(){}function Le(t){return t==null?Ba:function(){return this.querySelector(t)}}function Ha(t){typeof t!="function"&&(t=Le(t));for(var e=this.
_groups,n=e.length,r=new Array(n),i=0;i<n;++i)for(var a=e[i],o=a.length,s=r[i]=new Array(o),l,u,f=0;f<o;++f)(l=a[f])&&(u=t.call(l,l.__data__,f,a))&&("__data__"in
l&&(u.__data__=l.__data__),s[f]=u);return new et(r,this._parents)}function Ua(t){return t==null?[]:Array.isArray(t)?t:Array.from(t)}function Va(){return[]}function Un(t){
return t==null?Va:function(){return this.querySelectorAll(t)}}function Wa(t){return function(){return Ua(t.apply(this,arguments))}}function Xa(t){typeof t=="fun\
ction"?t=Wa(t):t=Un(t);for(var e=this._groups,n=e.length,r=[],i=[],a=0;a<n;++a)for(var o=e[a],s=o.length,l,u=0;u<s;++u)(l=o[u])&&(r.push(t.call(l,l.__data__,u,o)),
i.push(l));return new et(r,i)}function Vn(t){return function(){return this.matches(t)}}function ki(t){return function(e){return e.matches(t)}}var Ga=Array.prototype.
find;function Ya(t){return function(){return Ga.call(this.children,t)}}function Ka(){return this.firstElementChild}function Qa(t){return this.select(t==null?Ka:
Ya(typeof t=="function"?t:ki(t)))}var Za=Array.prototype.filter;function Ja(){return Array.from(this.children)}function ja(t){return function(){return Za.call(this.
children,t)}}function ts(t){return this.selectAll(t==null?Ja:ja(typeof t=="function"?t:ki(t)))}function es(t){typeof t!="function"&&(t=Vn(t));for(var e=this._groups,
n=e.length,r=new Array(n),i=0;i<n;++i)for(var a=e[i],o=a.length,s=r[i]=[],l,u=0;u<o;++u)(l=a[u])&&t.call(l,l.__data__,u,a)&&s.push(l);return new et(r,this._parents)}
function Mi(t){return new Array(t.length)}function ns(){return new et(this._enter||this._groups.map(Mi),this._parents)}function De(t,e){this.ownerDocument=t.ownerDocument,
this.namespaceURI=t.namespaceURI,this._next=null,this._parent=t,this.__data__=e}De.prototype={constructor:De,appendChild:function(t){return this._parent.insertBefore(
t,this._next)},insertBefore:function(t,e){return this._parent.insertBefore(t,e)},querySelector:function(t){return this._parent.querySelector(t)},querySelectorAll:function(t){
return this._parent.querySelectorAll(t)}};function rs(t){return function(){return t}}function is(t,e,n,r,i,a){for(var o=0,s,l=e.length,u=a.length;o<u;++o)(s=e[o])?
(s.__data__=a[o],r[o]=s):n[o]=new De(t,a[o]);for(;o<l;++o)(s=e[o])&&(i[o]=s)}function os(t,e,n,r,i,a,o){var s,l,u=new Map,f=e.length,m=a.length,h=new Array(f),d;
for(s=0;s<f;++s)(l=e[s])&&(h[s]=d=o.call(l,l.__data__,s,e)+"",u.has(d)?i[s]=l:u.set(d,l));for(s=0;s<m;++s)d=o.call(t,a[s],s,a)+"",(l=u.get(d))?(r[s]=l,l.__data__=
a[s],u.delete(d)):n[s]=new De(t,a[s]);for(s=0;s<f;++s)(l=e[s])&&u.get(h[s])===l&&(i[s]=l)}function as(t){return t.__data__}function ss(t,e){if(!arguments.length)
return Array.from(this,as);var n=e?os:is,r=this._parents,i=this._groups;typeof t!="function"&&(t=rs(t));for(var a=i.length,o=new Array(a),s=new Array(a),l=new Array(
a),u=0;u<a;++u){var f=r[u],m=i[u],h=m.length,d=us(t.call(f,f&&f.__data__,u,r)),p=d.length,v=s[u]=new Array(p),b=o[u]=new Array(p),_=l[u]=new Array(h);n(f,m,v,b,
_,d,e);for(var $=0,w=0,N,R;$<p;++$)if(N=v[$]){for($>=w&&(w=$+1);!(R=b[w])&&++w<p;);N._next=R||null}}return o=new et(o,r),o._enter=s,o._exit=l,o}function us(t){return typeof t==
"object"&&"length"in t?t:Array.from(t)}function ls(){return new et(this._exit||this._groups.map(Mi),this._parents)}function cs(t,e,n){var r=this.enter(),i=this,
a=this.exit();return typeof t=="function"?(r=t(r),r&&(r=r.selection())):r=r.append(t+""),e!=null&&(i=e(i),i&&(i=i.selection())),n==null?a.remove():n(a),r&&i?r.merge(
i).order():i}function fs(t){for(var e=t.selection?t.selection():t,n=this._groups,r=e._groups,i=n.length,a=r.length,o=Math.min(i,a),s=new Array(i),l=0;l<o;++l)for(var u=n[l],
f=r[l],m=u.length,h=s[l]=new Array(m),d,p=0;p<m;++p)(d=u[p]||f[p])&&(h[p]=d);for(;l<i;++l)s[l]=n[l];return new et(s,this._parents)}function hs(){for(var t=this.
_groups,e=-1,n=t.length;++e<n;)for(var r=t[e],i=r.length-1,a=r[i],o;--i>=0;)(o=r[i])&&(a&&o.compareDocumentPosition(a)^4&&a.parentNode.insertBefore(o,a),a=o);return this}
function ds(t){t||(t=ms);function e(m,h){return m&&h?t(m.__data__,h.__data__):!m-!h}for(var n=this._groups,r=n.length,i=new Array(r),a=0;a<r;++a){for(var o=n[a],
s=o.length,l=i[a]=new Array(s),u,f=0;f<s;++f)(u=o[f])&&(l[f]=u);l.sort(e)}return new et(i,this._parents).order()}function ms(t,e){return t<e?-1:t>e?1:t>=e?0:NaN}
function ps(){var t=arguments[0];return arguments[0]=this,t.apply(null,arguments),this}function gs(){return Array.from(this)}function _s(){for(var t=this._groups,
e=0,n=t.length;e<n;++e)for(var r=t[e],i=0,a=r.length;i<a;++i){var o=r[i];if(o)return o}return null}function ys(){let t=0;for(let e of this)++t;return t}function vs(){
return!this.node()}function bs(t){for(var e=this._groups,n=0,r=e.length;n<r;++n)for(var i=e[n],a=0,o=i.length,s;a<o;++a)(s=i[a])&&t.call(s,s.__data__,a,i);return this}
function ws(t){return function(){this.removeAttribute(t)}}function xs(t){return function(){this.removeAttributeNS(t.space,t.local)}}function ks(t,e){return function(){
this.setAttribute(t,e)}}function Ms(t,e){return function(){this.setAttributeNS(t.space,t.local,e)}}function $s(t,e){return function(){var n=e.apply(this,arguments);
n==null?this.removeAttribute(t):this.setAttribute(t,n)}}function Ns(t,e){return function(){var n=e.apply(this,arguments);n==null?this.removeAttributeNS(t.space,
t.local):this.setAttributeNS(t.space,t.local,n)}}function Ss(t,e){var n=ue(t);if(arguments.length<2){var r=this.node();return n.local?r.getAttributeNS(n.space,n.
local):r.getAttribute(n)}return this.each((e==null?n.local?xs:ws:typeof e=="function"?n.local?Ns:$s:n.local?Ms:ks)(n,e))}function $i(t){return t.ownerDocument&&
t.ownerDocument.defaultView||t.document&&t||t.defaultView}function As(t){return function(){this.style.removeProperty(t)}}function Es(t,e,n){return function(){this.
style.setProperty(t,e,n)}}function Cs(t,e,n){return function(){var r=e.apply(this,arguments);r==null?this.style.removeProperty(t):this.style.setProperty(t,r,n)}}
function Is(t,e,n){return arguments.length>1?this.each((e==null?As:typeof e=="function"?Cs:Es)(t,e,n??"")):Tt(this.node(),t)}function Tt(t,e){return t.style.getPropertyValue(
e)||$i(t).getComputedStyle(t,null).getPropertyValue(e)}function Ts(t){return function(){delete this[t]}}function Os(t,e){return function(){this[t]=e}}function zs(t,e){
return function(){var n=e.apply(this,arguments);n==null?delete this[t]:this[t]=n}}function Rs(t,e){return arguments.length>1?this.each((e==null?Ts:typeof e=="fu\
nction"?zs:Os)(t,e)):this.node()[t]}function Ni(t){return t.trim().split(/^|\s+/)}function Wn(t){return t.classList||new Si(t)}function Si(t){this._node=t,this.
_names=Ni(t.getAttribute("class")||"")}Si.prototype={add:function(t){var e=this._names.indexOf(t);e<0&&(this._names.push(t),this._node.setAttribute("class",this.
_names.join(" ")))},remove:function(t){var e=this._names.indexOf(t);e>=0&&(this._names.splice(e,1),this._node.setAttribute("class",this._names.join(" ")))},contains:function(t){
return this._names.indexOf(t)>=0}};function Ai(t,e){for(var n=Wn(t),r=-1,i=e.length;++r<i;)n.add(e[r])}function Ei(t,e){for(var n=Wn(t),r=-1,i=e.length;++r<i;)n.
remove(e[r])}function Ps(t){return function(){Ai(this,t)}}function Ds(t){return function(){Ei(this,t)}}function Ls(t,e){return function(){(e.apply(this,arguments)?
Ai:Ei)(this,t)}}function Fs(t,e){var n=Ni(t+"");if(arguments.length<2){for(var r=Wn(this.node()),i=-1,a=n.length;++i<a;)if(!r.contains(n[i]))return!1;return!0}return this.
each((typeof e=="function"?Ls:e?Ps:Ds)(n,e))}function qs(){this.textContent=""}function Bs(t){return function(){this.textContent=t}}function Hs(t){return function(){
var e=t.apply(this,arguments);this.textContent=e??""}}function Us(t){return arguments.length?this.each(t==null?qs:(typeof t=="function"?Hs:Bs)(t)):this.node().textContent}
function Vs(){this.innerHTML=""}function Ws(t){return function(){this.innerHTML=t}}function Xs(t){return function(){var e=t.apply(this,arguments);this.innerHTML=
e??""}}function Gs(t){return arguments.length?this.each(t==null?Vs:(typeof t=="function"?Xs:Ws)(t)):this.node().innerHTML}function Ys(){this.nextSibling&&this.parentNode.
appendChild(this)}function Ks(){return this.each(Ys)}function Qs(){this.previousSibling&&this.parentNode.insertBefore(this,this.parentNode.firstChild)}function Zs(){
return this.each(Qs)}function Js(t){var e=typeof t=="function"?t:xi(t);return this.select(function(){return this.appendChild(e.apply(this,arguments))})}function js(){
return null}function tu(t,e){var n=typeof t=="function"?t:xi(t),r=e==null?js:typeof e=="function"?e:Le(e);return this.select(function(){return this.insertBefore(
n.apply(this,arguments),r.apply(this,arguments)||null)})}function eu(){var t=this.parentNode;t&&t.removeChild(this)}function nu(){return this.each(eu)}function ru(){
var t=this.cloneNode(!1),e=this.parentNode;return e?e.insertBefore(t,this.nextSibling):t}function iu(){var t=this.cloneNode(!0),e=this.parentNode;return e?e.insertBefore(
t,this.nextSibling):t}function ou(t){return this.select(t?iu:ru)}function au(t){return arguments.length?this.property("__data__",t):this.node().__data__}function su(t){
return function(e){t.call(this,e,this.__data__)}}function uu(t){return t.trim().split(/^|\s+/).map(function(e){var n="",r=e.indexOf(".");return r>=0&&(n=e.slice(
r+1),e=e.slice(0,r)),{type:e,name:n}})}function lu(t){return function(){var e=this.__on;if(e){for(var n=0,r=-1,i=e.length,a;n<i;++n)a=e[n],(!t.type||a.type===t.
type)&&a.name===t.name?this.removeEventListener(a.type,a.listener,a.options):e[++r]=a;++r?e.length=r:delete this.__on}}}function cu(t,e,n){return function(){var r=this.
__on,i,a=su(e);if(r){for(var o=0,s=r.length;o<s;++o)if((i=r[o]).type===t.type&&i.name===t.name){this.removeEventListener(i.type,i.listener,i.options),this.addEventListener(
i.type,i.listener=a,i.options=n),i.value=e;return}}this.addEventListener(t.type,a,n),i={type:t.type,name:t.name,value:e,listener:a,options:n},r?r.push(i):this.__on=
[i]}}function fu(t,e,n){var r=uu(t+""),i,a=r.length,o;if(arguments.length<2){var s=this.node().__on;if(s){for(var l=0,u=s.length,f;l<u;++l)for(i=0,f=s[l];i<a;++i)
if((o=r[i]).type===f.type&&o.name===f.name)return f.value}return}for(s=e?cu:lu,i=0;i<a;++i)this.each(s(r[i],e,n));return this}function Ci(t,e,n){var r=$i(t),i=r.
CustomEvent;typeof i=="function"?i=new i(e,n):(i=r.document.createEvent("Event"),n?(i.initEvent(e,n.bubbles,n.cancelable),i.detail=n.detail):i.initEvent(e,!1,!1)),
t.dispatchEvent(i)}function hu(t,e){return function(){return Ci(this,t,e)}}function du(t,e){return function(){return Ci(this,t,e.apply(this,arguments))}}function mu(t,e){
return this.each((typeof e=="function"?du:hu)(t,e))}function*pu(){for(var t=this._groups,e=0,n=t.length;e<n;++e)for(var r=t[e],i=0,a=r.length,o;i<a;++i)(o=r[i])&&
(yield o)}var Ii=[null];function et(t,e){this._groups=t,this._parents=e}function Ot(){return new et([[document.documentElement]],Ii)}function gu(){return this}et.
prototype=Ot.prototype={constructor:et,select:Ha,selectAll:Xa,selectChild:Qa,selectChildren:ts,filter:es,data:ss,enter:ns,exit:ls,join:cs,merge:fs,selection:gu,
order:hs,sort:ds,call:ps,nodes:gs,node:_s,size:ys,empty:vs,each:bs,attr:Ss,style:Is,property:Rs,classed:Fs,text:Us,html:Gs,raise:Ks,lower:Zs,append:Js,insert:tu,
remove:nu,clone:ou,datum:au,on:fu,dispatch:mu,[Symbol.iterator]:pu};function Z(t){return typeof t=="string"?new et([[document.querySelector(t)]],[document.documentElement]):
new et([[t]],Ii)}var _u=0;function yu(){return new Hn}function Hn(){this._="@"+(++_u).toString(36)}Hn.prototype=yu.prototype={constructor:Hn,get:function(t){for(var e=this._;!(e in
t);)if(!(t=t.parentNode))return;return t[e]},set:function(t,e){return t[this._]=e},remove:function(t){return this._ in t&&delete t[this._]},toString:function(){
return this._}};function vu(t){let e;for(;e=t.sourceEvent;)t=e;return t}function vt(t,e){if(t=vu(t),e===void 0&&(e=t.currentTarget),e){var n=e.ownerSVGElement||
e;if(n.createSVGPoint){var r=n.createSVGPoint();return r.x=t.clientX,r.y=t.clientY,r=r.matrixTransform(e.getScreenCTM().inverse()),[r.x,r.y]}if(e.getBoundingClientRect){
var i=e.getBoundingClientRect();return[t.clientX-i.left-e.clientLeft,t.clientY-i.top-e.clientTop]}}return[t.pageX,t.pageY]}var bu={value:()=>{}};function le(){for(var t=0,e=arguments.length,n={},r;t<e;++t){if(!(r=arguments[t]+"")||r in n||/[\s.]/.test(r))throw new Error("illegal typ\
e: "+r);n[r]=[]}return new Fe(n)}function Fe(t){this._=t}function wu(t,e){return t.trim().split(/^|\s+/).map(function(n){var r="",i=n.indexOf(".");if(i>=0&&(r=n.
slice(i+1),n=n.slice(0,i)),n&&!e.hasOwnProperty(n))throw new Error("unknown type: "+n);return{type:n,name:r}})}Fe.prototype=le.prototype={constructor:Fe,on:function(t,e){
var n=this._,r=wu(t+"",n),i,a=-1,o=r.length;if(arguments.length<2){for(;++a<o;)if((i=(t=r[a]).type)&&(i=xu(n[i],t.name)))return i;return}if(e!=null&&typeof e!="\
function")throw new Error("invalid callback: "+e);for(;++a<o;)if(i=(t=r[a]).type)n[i]=Ti(n[i],t.name,e);else if(e==null)for(i in n)n[i]=Ti(n[i],t.name,null);return this},
copy:function(){var t={},e=this._;for(var n in e)t[n]=e[n].slice();return new Fe(t)},call:function(t,e){if((i=arguments.length-2)>0)for(var n=new Array(i),r=0,i,
a;r<i;++r)n[r]=arguments[r+2];if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(a=this._[t],r=0,i=a.length;r<i;++r)a[r].value.apply(e,n)},apply:function(t,e,n){
if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(var r=this._[t],i=0,a=r.length;i<a;++i)r[i].value.apply(e,n)}};function xu(t,e){for(var n=0,
r=t.length,i;n<r;++n)if((i=t[n]).name===e)return i.value}function Ti(t,e,n){for(var r=0,i=t.length;r<i;++r)if(t[r].name===e){t[r]=bu,t=t.slice(0,r).concat(t.slice(
r+1));break}return n!=null&&t.push({name:e,value:n}),t}var Xn={capture:!0,passive:!1};function Gn(t){t.preventDefault(),t.stopImmediatePropagation()}function Oi(t){var e=t.document.documentElement,n=Z(t).on("dragstart.drag",Gn,Xn);"onselectstart"in
e?n.on("selectstart.drag",Gn,Xn):(e.__noselect=e.style.MozUserSelect,e.style.MozUserSelect="none")}function zi(t,e){var n=t.document.documentElement,r=Z(t).on("\
dragstart.drag",null);e&&(r.on("click.drag",Gn,Xn),setTimeout(function(){r.on("click.drag",null)},0)),"onselectstart"in n?r.on("selectstart.drag",null):(n.style.
MozUserSelect=n.__noselect,delete n.__noselect)}function ku(t,{sourceEvent:e,subject:n,target:r,identifier:i,active:a,x:o,y:s,dx:l,dy:u,dispatch:f}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},
sourceEvent:{value:e,enumerable:!0,configurable:!0},subject:{value:n,enumerable:!0,configurable:!0},target:{value:r,enumerable:!0,configurable:!0},identifier:{value:i,
enumerable:!0,configurable:!0},active:{value:a,enumerable:!0,configurable:!0},x:{value:o,enumerable:!0,configurable:!0},y:{value:s,enumerable:!0,configurable:!0},
dx:{value:l,enumerable:!0,configurable:!0},dy:{value:u,enumerable:!0,configurable:!0},_:{value:f}})}ku.prototype.on=function(){var t=this._.on.apply(this._,arguments);
return t===this._?this:t};function Yt(t,e,n){t.prototype=e.prototype=n,n.constructor=t}function he(t,e){var n=Object.create(t.prototype);for(var r in e)n[r]=e[r];return n}function At(){}
var Dt=.7,Gt=1/Dt,Wt="\\s*([+-]?\\d+)\\s*",ce="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*",ft="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*",Mu=/^#([0-9a-f]{3,8})$/,
$u=new RegExp(`^rgb\\(${Wt},${Wt},${Wt}\\)$`),Nu=new RegExp(`^rgb\\(${ft},${ft},${ft}\\)$`),Su=new RegExp(`^rgba\\(${Wt},${Wt},${Wt},${ce}\\)$`),Au=new RegExp(`\
^rgba\\(${ft},${ft},${ft},${ce}\\)$`),Eu=new RegExp(`^hsl\\(${ce},${ft},${ft}\\)$`),Cu=new RegExp(`^hsla\\(${ce},${ft},${ft},${ce}\\)$`),Ri={aliceblue:15792383,
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
Yt(At,wt,{copy(t){return Object.assign(new this.constructor,this,t)},displayable(){return this.rgb().displayable()},hex:Pi,formatHex:Pi,formatHex8:Iu,formatHsl:Tu,
formatRgb:Di,toString:Di});function Pi(){return this.rgb().formatHex()}function Iu(){return this.rgb().formatHex8()}function Tu(){return Xi(this).formatHsl()}function Di(){
return this.rgb().formatRgb()}function wt(t){var e,n;return t=(t+"").trim().toLowerCase(),(e=Mu.exec(t))?(n=e[1].length,e=parseInt(e[1],16),n===6?Li(e):n===3?new G(
e>>8&15|e>>4&240,e>>4&15|e&240,(e&15)<<4|e&15,1):n===8?qe(e>>24&255,e>>16&255,e>>8&255,(e&255)/255):n===4?qe(e>>12&15|e>>8&240,e>>8&15|e>>4&240,e>>4&15|e&240,((e&
15)<<4|e&15)/255):null):(e=$u.exec(t))?new G(e[1],e[2],e[3],1):(e=Nu.exec(t))?new G(e[1]*255/100,e[2]*255/100,e[3]*255/100,1):(e=Su.exec(t))?qe(e[1],e[2],e[3],e[4]):
(e=Au.exec(t))?qe(e[1]*255/100,e[2]*255/100,e[3]*255/100,e[4]):(e=Eu.exec(t))?Bi(e[1],e[2]/100,e[3]/100,1):(e=Cu.exec(t))?Bi(e[1],e[2]/100,e[3]/100,e[4]):Ri.hasOwnProperty(
t)?Li(Ri[t]):t==="transparent"?new G(NaN,NaN,NaN,0):null}function Li(t){return new G(t>>16&255,t>>8&255,t&255,1)}function qe(t,e,n,r){return r<=0&&(t=e=n=NaN),new G(
t,e,n,r)}function jn(t){return t instanceof At||(t=wt(t)),t?(t=t.rgb(),new G(t.r,t.g,t.b,t.opacity)):new G}function de(t,e,n,r){return arguments.length===1?jn(t):
new G(t,e,n,r??1)}function G(t,e,n,r){this.r=+t,this.g=+e,this.b=+n,this.opacity=+r}Yt(G,de,he(At,{brighter(t){return t=t==null?Gt:Math.pow(Gt,t),new G(this.r*t,
this.g*t,this.b*t,this.opacity)},darker(t){return t=t==null?Dt:Math.pow(Dt,t),new G(this.r*t,this.g*t,this.b*t,this.opacity)},rgb(){return this},clamp(){return new G(
Rt(this.r),Rt(this.g),Rt(this.b),He(this.opacity))},displayable(){return-.5<=this.r&&this.r<255.5&&-.5<=this.g&&this.g<255.5&&-.5<=this.b&&this.b<255.5&&0<=this.
opacity&&this.opacity<=1},hex:Fi,formatHex:Fi,formatHex8:Ou,formatRgb:qi,toString:qi}));function Fi(){return`#${zt(this.r)}${zt(this.g)}${zt(this.b)}`}function Ou(){
return`#${zt(this.r)}${zt(this.g)}${zt(this.b)}${zt((isNaN(this.opacity)?1:this.opacity)*255)}`}function qi(){let t=He(this.opacity);return`${t===1?"rgb(":"rgba\
("}${Rt(this.r)}, ${Rt(this.g)}, ${Rt(this.b)}${t===1?")":`, ${t})`}`}function He(t){return isNaN(t)?1:Math.max(0,Math.min(1,t))}function Rt(t){return Math.max(
0,Math.min(255,Math.round(t)||0))}function zt(t){return t=Rt(t),(t<16?"0":"")+t.toString(16)}function Bi(t,e,n,r){return r<=0?t=e=n=NaN:n<=0||n>=1?t=e=NaN:e<=0&&
(t=NaN),new st(t,e,n,r)}function Xi(t){if(t instanceof st)return new st(t.h,t.s,t.l,t.opacity);if(t instanceof At||(t=wt(t)),!t)return new st;if(t instanceof st)
return t;t=t.rgb();var e=t.r/255,n=t.g/255,r=t.b/255,i=Math.min(e,n,r),a=Math.max(e,n,r),o=NaN,s=a-i,l=(a+i)/2;return s?(e===a?o=(n-r)/s+(n<r)*6:n===a?o=(r-e)/s+
2:o=(e-n)/s+4,s/=l<.5?a+i:2-a-i,o*=60):s=l>0&&l<1?0:o,new st(o,s,l,t.opacity)}function Ve(t,e,n,r){return arguments.length===1?Xi(t):new st(t,e,n,r??1)}function st(t,e,n,r){
this.h=+t,this.s=+e,this.l=+n,this.opacity=+r}Yt(st,Ve,he(At,{brighter(t){return t=t==null?Gt:Math.pow(Gt,t),new st(this.h,this.s,this.l*t,this.opacity)},darker(t){
return t=t==null?Dt:Math.pow(Dt,t),new st(this.h,this.s,this.l*t,this.opacity)},rgb(){var t=this.h%360+(this.h<0)*360,e=isNaN(t)||isNaN(this.s)?0:this.s,n=this.
l,r=n+(n<.5?n:1-n)*e,i=2*n-r;return new G(Yn(t>=240?t-240:t+120,i,r),Yn(t,i,r),Yn(t<120?t+240:t-120,i,r),this.opacity)},clamp(){return new st(Hi(this.h),Be(this.
s),Be(this.l),He(this.opacity))},displayable(){return(0<=this.s&&this.s<=1||isNaN(this.s))&&0<=this.l&&this.l<=1&&0<=this.opacity&&this.opacity<=1},formatHsl(){
let t=He(this.opacity);return`${t===1?"hsl(":"hsla("}${Hi(this.h)}, ${Be(this.s)*100}%, ${Be(this.l)*100}%${t===1?")":`, ${t})`}`}}));function Hi(t){return t=(t||
0)%360,t<0?t+360:t}function Be(t){return Math.max(0,Math.min(1,t||0))}function Yn(t,e,n){return(t<60?e+(n-e)*t/60:t<180?n:t<240?e+(n-e)*(240-t)/60:e)*255}var Gi=Math.
PI/180,Yi=180/Math.PI,Ue=18,Ki=.96422,Qi=1,Zi=.82521,Ji=4/29,Xt=6/29,ji=3*Xt*Xt,zu=Xt*Xt*Xt;function to(t){if(t instanceof ht)return new ht(t.l,t.a,t.b,t.opacity);
if(t instanceof bt)return no(t);t instanceof G||(t=jn(t));var e=Jn(t.r),n=Jn(t.g),r=Jn(t.b),i=Kn((.2225045*e+.7168786*n+.0606169*r)/Qi),a,o;return e===n&&n===r?
a=o=i:(a=Kn((.4360747*e+.3850649*n+.1430804*r)/Ki),o=Kn((.0139322*e+.0971045*n+.7141733*r)/Zi)),new ht(116*i-16,500*(a-i),200*(i-o),t.opacity)}function eo(t,e,n,r){return arguments.length===1?to(t):new ht(t,e,n,r??1)}function ht(t,e,n,r){this.l=+t,this.a=+e,this.b=+n,this.opacity=+r}Yt(ht,eo,he(At,{brighter(t){
return new ht(this.l+Ue*(t??1),this.a,this.b,this.opacity)},darker(t){return new ht(this.l-Ue*(t??1),this.a,this.b,this.opacity)},rgb(){var t=(this.l+16)/116,e=isNaN(
this.a)?t:t+this.a/500,n=isNaN(this.b)?t:t-this.b/200;return e=Ki*Qn(e),t=Qi*Qn(t),n=Zi*Qn(n),new G(Zn(3.1338561*e-1.6168667*t-.4906146*n),Zn(-.9787684*e+1.9161415*
t+.033454*n),Zn(.0719453*e-.2289914*t+1.4052427*n),this.opacity)}}));function Kn(t){return t>zu?Math.pow(t,1/3):t/ji+Ji}function Qn(t){return t>Xt?t*t*t:ji*(t-Ji)}
function Zn(t){return 255*(t<=.0031308?12.92*t:1.055*Math.pow(t,1/2.4)-.055)}function Jn(t){return(t/=255)<=.04045?t/12.92:Math.pow((t+.055)/1.055,2.4)}function Ru(t){
if(t instanceof bt)return new bt(t.h,t.c,t.l,t.opacity);if(t instanceof ht||(t=to(t)),t.a===0&&t.b===0)return new bt(NaN,0<t.l&&t.l<100?0:NaN,t.l,t.opacity);var e=Math.
atan2(t.b,t.a)*Yi;return new bt(e<0?e+360:e,Math.sqrt(t.a*t.a+t.b*t.b),t.l,t.opacity)}function We(t,e,n,r){return arguments.length===1?Ru(t):new bt(t,e,n,r??1)}function bt(t,e,n,r){this.h=+t,this.c=+e,this.l=+n,this.opacity=+r}function no(t){if(isNaN(
t.h))return new ht(t.l,0,0,t.opacity);var e=t.h*Gi;return new ht(t.l,Math.cos(e)*t.c,Math.sin(e)*t.c,t.opacity)}Yt(bt,We,he(At,{brighter(t){return new bt(this.h,
this.c,this.l+Ue*(t??1),this.opacity)},darker(t){return new bt(this.h,this.c,this.l-Ue*(t??1),this.opacity)},rgb(){return no(this).rgb()}}));var ro=-.14861,tr=1.78277,
er=-.29227,Xe=-.90649,fe=1.97294,Ui=fe*Xe,Vi=fe*tr,Wi=tr*er-Xe*ro;function Pu(t){if(t instanceof Pt)return new Pt(t.h,t.s,t.l,t.opacity);t instanceof G||(t=jn(t));
var e=t.r/255,n=t.g/255,r=t.b/255,i=(Wi*r+Ui*e-Vi*n)/(Wi+Ui-Vi),a=r-i,o=(fe*(n-i)-er*a)/Xe,s=Math.sqrt(o*o+a*a)/(fe*i*(1-i)),l=s?Math.atan2(o,a)*Yi-120:NaN;return new Pt(
l<0?l+360:l,s,i,t.opacity)}function Ge(t,e,n,r){return arguments.length===1?Pu(t):new Pt(t,e,n,r??1)}function Pt(t,e,n,r){this.h=+t,this.s=+e,this.l=+n,this.opacity=
+r}Yt(Pt,Ge,he(At,{brighter(t){return t=t==null?Gt:Math.pow(Gt,t),new Pt(this.h,this.s,this.l*t,this.opacity)},darker(t){return t=t==null?Dt:Math.pow(Dt,t),new Pt(
this.h,this.s,this.l*t,this.opacity)},rgb(){var t=isNaN(this.h)?0:(this.h+120)*Gi,e=+this.l,n=isNaN(this.s)?0:this.s*e*(1-e),r=Math.cos(t),i=Math.sin(t);return new G(
255*(e+n*(ro*r+tr*i)),255*(e+n*(er*r+Xe*i)),255*(e+n*(fe*r)),this.opacity)}}));function ao(t,e,n,r,i){var a=t*t,o=a*t;return((1-3*t+3*a-o)*e+(4-6*a+3*o)*n+(1+3*t+3*a-3*o)*r+o*i)/6}function Du(t){var e=t.length-1;return function(n){var r=n<=
0?n=0:n>=1?(n=1,e-1):Math.floor(n*e),i=t[r],a=t[r+1],o=r>0?t[r-1]:2*i-a,s=r<e-1?t[r+2]:2*a-i;return ao((n-r/e)*e,o,i,a,s)}}function Lu(t){var e=t.length;return function(n){
var r=Math.floor(((n%=1)<0?++n:n)*e),i=t[(r+e-1)%e],a=t[r%e],o=t[(r+1)%e],s=t[(r+2)%e];return ao((n-r/e)*e,i,a,o,s)}}var Ke=t=>()=>t;function so(t,e){return function(n){
return t+n*e}}function Fu(t,e,n){return t=Math.pow(t,n),e=Math.pow(e,n)-t,n=1/n,function(r){return Math.pow(t+r*e,n)}}function or(t,e){var n=e-t;return n?so(t,n>
180||n<-180?n-360*Math.round(n/360):n):Ke(isNaN(t)?e:t)}function qu(t){return(t=+t)==1?tt:function(e,n){return n-e?Fu(e,n,t):Ke(isNaN(e)?n:e)}}function tt(t,e){
var n=e-t;return n?so(t,n):Ke(isNaN(t)?e:t)}var me=(function t(e){var n=qu(e);function r(i,a){var o=n((i=de(i)).r,(a=de(a)).r),s=n(i.g,a.g),l=n(i.b,a.b),u=tt(i.
opacity,a.opacity);return function(f){return i.r=o(f),i.g=s(f),i.b=l(f),i.opacity=u(f),i+""}}return r.gamma=t,r})(1);function uo(t){return function(e){var n=e.length,
r=new Array(n),i=new Array(n),a=new Array(n),o,s;for(o=0;o<n;++o)s=de(e[o]),r[o]=s.r||0,i[o]=s.g||0,a[o]=s.b||0;return r=t(r),i=t(i),a=t(a),s.opacity=1,function(l){
return s.r=r(l),s.g=i(l),s.b=a(l),s+""}}}var eh=uo(Du),nh=uo(Lu);function Bu(t,e){e||(e=[]);var n=t?Math.min(e.length,t.length):0,r=e.slice(),i;return function(a){
for(i=0;i<n;++i)r[i]=t[i]*(1-a)+e[i]*a;return r}}function Hu(t){return ArrayBuffer.isView(t)&&!(t instanceof DataView)}function Uu(t,e){var n=e?e.length:0,r=t?Math.min(n,t.length):0,i=new Array(r),a=new Array(n),o;for(o=0;o<r;++o)i[o]=Qe(t[o],e[o]);for(;o<n;++o)a[o]=e[o];return function(s){
for(o=0;o<r;++o)a[o]=i[o](s);return a}}function Vu(t,e){var n=new Date;return t=+t,e=+e,function(r){return n.setTime(t*(1-r)+e*r),n}}function nt(t,e){return t=+t,
e=+e,function(n){return t*(1-n)+e*n}}function Wu(t,e){var n={},r={},i;(t===null||typeof t!="object")&&(t={}),(e===null||typeof e!="object")&&(e={});for(i in e)i in
t?n[i]=Qe(t[i],e[i]):r[i]=e[i];return function(a){for(i in n)r[i]=n[i](a);return r}}var rr=/[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g,nr=new RegExp(rr.source,
"g");function Xu(t){return function(){return t}}function Gu(t){return function(e){return t(e)+""}}function ar(t,e){var n=rr.lastIndex=nr.lastIndex=0,r,i,a,o=-1,
s=[],l=[];for(t=t+"",e=e+"";(r=rr.exec(t))&&(i=nr.exec(e));)(a=i.index)>n&&(a=e.slice(n,a),s[o]?s[o]+=a:s[++o]=a),(r=r[0])===(i=i[0])?s[o]?s[o]+=i:s[++o]=i:(s[++o]=
null,l.push({i:o,x:nt(r,i)})),n=nr.lastIndex;return n<e.length&&(a=e.slice(n),s[o]?s[o]+=a:s[++o]=a),s.length<2?l[0]?Gu(l[0].x):Xu(e):(e=l.length,function(u){for(var f=0,
m;f<e;++f)s[(m=l[f]).i]=m.x(u);return s.join("")})}function Qe(t,e){var n=typeof e,r;return e==null||n==="boolean"?Ke(e):(n==="number"?nt:n==="string"?(r=wt(e))?
(e=r,me):ar:e instanceof wt?me:e instanceof Date?Vu:Hu(e)?Bu:Array.isArray(e)?Uu:typeof e.valueOf!="function"&&typeof e.toString!="function"||isNaN(e)?Wu:nt)(t,
e)}function lo(t,e){return t=+t,e=+e,function(n){return Math.round(t*(1-n)+e*n)}}var io=180/Math.PI,ir={translateX:0,translateY:0,rotate:0,skewX:0,scaleX:1,scaleY:1};
function co(t,e,n,r,i,a){var o,s,l;return(o=Math.sqrt(t*t+e*e))&&(t/=o,e/=o),(l=t*n+e*r)&&(n-=t*l,r-=e*l),(s=Math.sqrt(n*n+r*r))&&(n/=s,r/=s,l/=s),t*r<e*n&&(t=-t,
e=-e,l=-l,o=-o),{translateX:i,translateY:a,rotate:Math.atan2(e,t)*io,skewX:Math.atan(l)*io,scaleX:o,scaleY:s}}var Ye;function Yu(t){let e=new(typeof DOMMatrix==
"function"?DOMMatrix:WebKitCSSMatrix)(t+"");return e.isIdentity?ir:co(e.a,e.b,e.c,e.d,e.e,e.f)}function Ku(t){return t==null||(Ye||(Ye=document.createElementNS(
"http://www.w3.org/2000/svg","g")),Ye.setAttribute("transform",t),!(t=Ye.transform.baseVal.consolidate()))?ir:(t=t.matrix,co(t.a,t.b,t.c,t.d,t.e,t.f))}function fo(t,e,n,r){
function i(u){return u.length?u.pop()+" ":""}function a(u,f,m,h,d,p){if(u!==m||f!==h){var v=d.push("translate(",null,e,null,n);p.push({i:v-4,x:nt(u,m)},{i:v-2,x:nt(
f,h)})}else(m||h)&&d.push("translate("+m+e+h+n)}function o(u,f,m,h){u!==f?(u-f>180?f+=360:f-u>180&&(u+=360),h.push({i:m.push(i(m)+"rotate(",null,r)-2,x:nt(u,f)})):
f&&m.push(i(m)+"rotate("+f+r)}function s(u,f,m,h){u!==f?h.push({i:m.push(i(m)+"skewX(",null,r)-2,x:nt(u,f)}):f&&m.push(i(m)+"skewX("+f+r)}function l(u,f,m,h,d,p){
if(u!==m||f!==h){var v=d.push(i(d)+"scale(",null,",",null,")");p.push({i:v-4,x:nt(u,m)},{i:v-2,x:nt(f,h)})}else(m!==1||h!==1)&&d.push(i(d)+"scale("+m+","+h+")")}
return function(u,f){var m=[],h=[];return u=t(u),f=t(f),a(u.translateX,u.translateY,f.translateX,f.translateY,m,h),o(u.rotate,f.rotate,m,h),s(u.skewX,f.skewX,m,
h),l(u.scaleX,u.scaleY,f.scaleX,f.scaleY,m,h),u=f=null,function(d){for(var p=-1,v=h.length,b;++p<v;)m[(b=h[p]).i]=b.x(d);return m.join("")}}}var ho=fo(Yu,"px, ",
"px)","deg)"),mo=fo(Ku,", ",")",")"),Qu=1e-12;function oo(t){return((t=Math.exp(t))+1/t)/2}function Zu(t){return((t=Math.exp(t))-1/t)/2}function Ju(t){return((t=
Math.exp(2*t))-1)/(t+1)}var po=(function t(e,n,r){function i(a,o){var s=a[0],l=a[1],u=a[2],f=o[0],m=o[1],h=o[2],d=f-s,p=m-l,v=d*d+p*p,b,_;if(v<Qu)_=Math.log(h/u)/
e,b=function(F){return[s+F*d,l+F*p,u*Math.exp(e*F*_)]};else{var $=Math.sqrt(v),w=(h*h-u*u+r*v)/(2*u*n*$),N=(h*h-u*u-r*v)/(2*h*n*$),R=Math.log(Math.sqrt(w*w+1)-w),
T=Math.log(Math.sqrt(N*N+1)-N);_=(T-R)/e,b=function(F){var Q=F*_,J=oo(R),H=u/(n*$)*(J*Ju(e*Q+R)-Zu(R));return[s+H*d,l+H*p,u*J/oo(e*Q+R)]}}return b.duration=Math.
abs(_)*1e3*e/Math.SQRT2,b}return i.rho=function(a){var o=Math.max(.001,+a),s=o*o,l=s*s;return t(o,s,l)},i})(Math.SQRT2,2,4);function go(t){return function(e,n){
var r=t((e=Ve(e)).h,(n=Ve(n)).h),i=tt(e.s,n.s),a=tt(e.l,n.l),o=tt(e.opacity,n.opacity);return function(s){return e.h=r(s),e.s=i(s),e.l=a(s),e.opacity=o(s),e+""}}}
var rh=go(or),ih=go(tt);function _o(t){return function(e,n){var r=t((e=We(e)).h,(n=We(n)).h),i=tt(e.c,n.c),a=tt(e.l,n.l),o=tt(e.opacity,n.opacity);return function(s){return e.h=r(s),e.
c=i(s),e.l=a(s),e.opacity=o(s),e+""}}}var oh=_o(or),ah=_o(tt);function yo(t){return(function e(n){n=+n;function r(i,a){var o=t((i=Ge(i)).h,(a=Ge(a)).h),s=tt(i.s,
a.s),l=tt(i.l,a.l),u=tt(i.opacity,a.opacity);return function(f){return i.h=o(f),i.s=s(f),i.l=l(Math.pow(f,n)),i.opacity=u(f),i+""}}return r.gamma=e,r})(1)}var sh=yo(
or),uh=yo(tt);var Kt=0,ge=0,pe=0,bo=1e3,Ze,_e,Je=0,Lt=0,tn=0,ye=typeof performance=="object"&&performance.now?performance:Date,wo=typeof window=="object"&&window.requestAnimationFrame?
window.requestAnimationFrame.bind(window):function(t){setTimeout(t,17)};function en(){return Lt||(wo(ju),Lt=ye.now()+tn)}function ju(){Lt=0}function je(){this._call=
this._time=this._next=null}je.prototype=ur.prototype={constructor:je,restart:function(t,e,n){if(typeof t!="function")throw new TypeError("callback is not a func\
tion");n=(n==null?en():+n)+(e==null?0:+e),!this._next&&_e!==this&&(_e?_e._next=this:Ze=this,_e=this),this._call=t,this._time=n,sr()},stop:function(){this._call&&
(this._call=null,this._time=1/0,sr())}};function ur(t,e,n){var r=new je;return r.restart(t,e,n),r}function tl(){en(),++Kt;for(var t=Ze,e;t;)(e=Lt-t._time)>=0&&t.
_call.call(void 0,e),t=t._next;--Kt}function vo(){Lt=(Je=ye.now())+tn,Kt=ge=0;try{tl()}finally{Kt=0,nl(),Lt=0}}function el(){var t=ye.now(),e=t-Je;e>bo&&(tn-=e,
Je=t)}function nl(){for(var t,e=Ze,n,r=1/0;e;)e._call?(r>e._time&&(r=e._time),t=e,e=e._next):(n=e._next,e._next=null,e=t?t._next=n:Ze=n);_e=t,sr(r)}function sr(t){
if(!Kt){ge&&(ge=clearTimeout(ge));var e=t-Lt;e>24?(t<1/0&&(ge=setTimeout(vo,Math.ceil(t-ye.now()-tn)+1)),pe&&(pe=clearInterval(pe))):(pe||(Je=ye.now(),pe=setInterval(
el,bo)),Kt=1,wo(vo))}}function lr(t,e,n){var r=new je;return e=e==null?0:+e,r.restart(i=>{r.stop(),t(i+e)},e,n),r}function ko(t){return((t*=2)<=1?t*t*t:(t-=2)*t*t+2)/2}var cr=3,fh=(function t(e){e=+e;function n(r){return Math.pow(r,e)}return n.exponent=t,n})(cr),hh=(function t(e){
e=+e;function n(r){return 1-Math.pow(1-r,e)}return n.exponent=t,n})(cr),dh=(function t(e){e=+e;function n(r){return((r*=2)<=1?Math.pow(r,e):2-Math.pow(2-r,e))/2}
return n.exponent=t,n})(cr),rl=Math.PI,mh=rl/2;function nn(t){return(Math.pow(2,-10*t)-.0009765625)*1.0009775171065494}var xo=4/11,ph=6/11,gh=8/11,_h=3/4,yh=9/11,vh=10/11,bh=15/16,wh=21/22,xh=63/64,kh=1/xo/xo;var fr=1.70158,Mh=(function t(e){e=+e;function n(r){return(r=+r)*r*(e*(r-1)+r)}return n.overshoot=t,n})(fr),$h=(function t(e){e=+e;function n(r){return--r*r*((r+
1)*e+r)+1}return n.overshoot=t,n})(fr),Nh=(function t(e){e=+e;function n(r){return((r*=2)<1?r*r*((e+1)*r-e):(r-=2)*r*((e+1)*r+e)+2)/2}return n.overshoot=t,n})(fr),
Qt=2*Math.PI,hr=1,dr=.3,Sh=(function t(e,n){var r=Math.asin(1/(e=Math.max(1,e)))*(n/=Qt);function i(a){return e*nn(- --a)*Math.sin((r-a)/n)}return i.amplitude=function(a){
return t(a,n*Qt)},i.period=function(a){return t(e,a)},i})(hr,dr),Ah=(function t(e,n){var r=Math.asin(1/(e=Math.max(1,e)))*(n/=Qt);function i(a){return 1-e*nn(a=
+a)*Math.sin((a+r)/n)}return i.amplitude=function(a){return t(a,n*Qt)},i.period=function(a){return t(e,a)},i})(hr,dr),Eh=(function t(e,n){var r=Math.asin(1/(e=Math.
max(1,e)))*(n/=Qt);function i(a){return((a=a*2-1)<0?e*nn(-a)*Math.sin((r-a)/n):2-e*nn(a)*Math.sin((r+a)/n))/2}return i.amplitude=function(a){return t(a,n*Qt)},i.
period=function(a){return t(e,a)},i})(hr,dr);var il=le("start","end","cancel","interrupt"),ol=[],No=0,Mo=1,mr=2,rn=3,$o=4,pr=5,on=6;function an(t,e,n,r,i,a){var o=t.__transition;if(!o)t.__transition={};else if(n in
o)return;al(t,n,{name:e,index:r,group:i,on:il,tween:ol,time:a.time,delay:a.delay,duration:a.duration,ease:a.ease,timer:null,state:No})}function gr(t,e){var n=ut(
t,e);if(n.state>No)throw new Error("too late; already scheduled");return n}function dt(t,e){var n=ut(t,e);if(n.state>rn)throw new Error("too late; already runni\
ng");return n}function ut(t,e){var n=t.__transition;if(!n||!(n=n[e]))throw new Error("transition not found");return n}function al(t,e,n){var r=t.__transition,i;
r[e]=n,n.timer=ur(a,0,n.time);function a(u){n.state=Mo,n.timer.restart(o,n.delay,n.time),n.delay<=u&&o(u-n.delay)}function o(u){var f,m,h,d;if(n.state!==Mo)return l();
for(f in r)if(d=r[f],d.name===n.name){if(d.state===rn)return lr(o);d.state===$o?(d.state=on,d.timer.stop(),d.on.call("interrupt",t,t.__data__,d.index,d.group),delete r[f]):
+f<e&&(d.state=on,d.timer.stop(),d.on.call("cancel",t,t.__data__,d.index,d.group),delete r[f])}if(lr(function(){n.state===rn&&(n.state=$o,n.timer.restart(s,n.delay,
n.time),s(u))}),n.state=mr,n.on.call("start",t,t.__data__,n.index,n.group),n.state===mr){for(n.state=rn,i=new Array(h=n.tween.length),f=0,m=-1;f<h;++f)(d=n.tween[f].
value.call(t,t.__data__,n.index,n.group))&&(i[++m]=d);i.length=m+1}}function s(u){for(var f=u<n.duration?n.ease.call(null,u/n.duration):(n.timer.restart(l),n.state=
pr,1),m=-1,h=i.length;++m<h;)i[m].call(t,f);n.state===pr&&(n.on.call("end",t,t.__data__,n.index,n.group),l())}function l(){n.state=on,n.timer.stop(),delete r[e];
for(var u in r)return;delete t.__transition}}function ve(t,e){var n=t.__transition,r,i,a=!0,o;if(n){e=e==null?null:e+"";for(o in n){if((r=n[o]).name!==e){a=!1;continue}
i=r.state>mr&&r.state<pr,r.state=on,r.timer.stop(),r.on.call(i?"interrupt":"cancel",t,t.__data__,r.index,r.group),delete n[o]}a&&delete t.__transition}}function sl(t){
return this.each(function(){ve(this,t)})}function ul(t,e){var n,r;return function(){var i=dt(this,t),a=i.tween;if(a!==n){r=n=a;for(var o=0,s=r.length;o<s;++o)if(r[o].
name===e){r=r.slice(),r.splice(o,1);break}}i.tween=r}}function ll(t,e,n){var r,i;if(typeof n!="function")throw new Error;return function(){var a=dt(this,t),o=a.
tween;if(o!==r){i=(r=o).slice();for(var s={name:e,value:n},l=0,u=i.length;l<u;++l)if(i[l].name===e){i[l]=s;break}l===u&&i.push(s)}a.tween=i}}function cl(t,e){var n=this.
_id;if(t+="",arguments.length<2){for(var r=ut(this.node(),n).tween,i=0,a=r.length,o;i<a;++i)if((o=r[i]).name===t)return o.value;return null}return this.each((e==
null?ul:ll)(n,t,e))}function _r(t,e,n){var r=t._id;return t.each(function(){var i=dt(this,r);(i.value||(i.value={}))[e]=n.apply(this,arguments)}),function(i){return ut(
i,r).value[e]}}function So(t,e){var n;return(typeof e=="number"?nt:e instanceof wt?me:(n=wt(e))?(e=n,me):ar)(t,e)}function fl(t){return function(){this.removeAttribute(
t)}}function hl(t){return function(){this.removeAttributeNS(t.space,t.local)}}function dl(t,e,n){var r,i=n+"",a;return function(){var o=this.getAttribute(t);return o===
i?null:o===r?a:a=e(r=o,n)}}function ml(t,e,n){var r,i=n+"",a;return function(){var o=this.getAttributeNS(t.space,t.local);return o===i?null:o===r?a:a=e(r=o,n)}}
function pl(t,e,n){var r,i,a;return function(){var o,s=n(this),l;return s==null?void this.removeAttribute(t):(o=this.getAttribute(t),l=s+"",o===l?null:o===r&&l===
i?a:(i=l,a=e(r=o,s)))}}function gl(t,e,n){var r,i,a;return function(){var o,s=n(this),l;return s==null?void this.removeAttributeNS(t.space,t.local):(o=this.getAttributeNS(
t.space,t.local),l=s+"",o===l?null:o===r&&l===i?a:(i=l,a=e(r=o,s)))}}function _l(t,e){var n=ue(t),r=n==="transform"?mo:So;return this.attrTween(t,typeof e=="fun\
ction"?(n.local?gl:pl)(n,r,_r(this,"attr."+t,e)):e==null?(n.local?hl:fl)(n):(n.local?ml:dl)(n,r,e))}function yl(t,e){return function(n){this.setAttribute(t,e.call(
this,n))}}function vl(t,e){return function(n){this.setAttributeNS(t.space,t.local,e.call(this,n))}}function bl(t,e){var n,r;function i(){var a=e.apply(this,arguments);
return a!==r&&(n=(r=a)&&vl(t,a)),n}return i._value=e,i}function wl(t,e){var n,r;function i(){var a=e.apply(this,arguments);return a!==r&&(n=(r=a)&&yl(t,a)),n}return i.
_value=e,i}function xl(t,e){var n="attr."+t;if(arguments.length<2)return(n=this.tween(n))&&n._value;if(e==null)return this.tween(n,null);if(typeof e!="function")
throw new Error;var r=ue(t);return this.tween(n,(r.local?bl:wl)(r,e))}function kl(t,e){return function(){gr(this,t).delay=+e.apply(this,arguments)}}function Ml(t,e){
return e=+e,function(){gr(this,t).delay=e}}function $l(t){var e=this._id;return arguments.length?this.each((typeof t=="function"?kl:Ml)(e,t)):ut(this.node(),e).
delay}function Nl(t,e){return function(){dt(this,t).duration=+e.apply(this,arguments)}}function Sl(t,e){return e=+e,function(){dt(this,t).duration=e}}function Al(t){
var e=this._id;return arguments.length?this.each((typeof t=="function"?Nl:Sl)(e,t)):ut(this.node(),e).duration}function El(t,e){if(typeof e!="function")throw new Error;
return function(){dt(this,t).ease=e}}function Cl(t){var e=this._id;return arguments.length?this.each(El(e,t)):ut(this.node(),e).ease}function Il(t,e){return function(){
var n=e.apply(this,arguments);if(typeof n!="function")throw new Error;dt(this,t).ease=n}}function Tl(t){if(typeof t!="function")throw new Error;return this.each(
Il(this._id,t))}function Ol(t){typeof t!="function"&&(t=Vn(t));for(var e=this._groups,n=e.length,r=new Array(n),i=0;i<n;++i)for(var a=e[i],o=a.length,s=r[i]=[],
l,u=0;u<o;++u)(l=a[u])&&t.call(l,l.__data__,u,a)&&s.push(l);return new kt(r,this._parents,this._name,this._id)}function zl(t){if(t._id!==this._id)throw new Error;
for(var e=this._groups,n=t._groups,r=e.length,i=n.length,a=Math.min(r,i),o=new Array(r),s=0;s<a;++s)for(var l=e[s],u=n[s],f=l.length,m=o[s]=new Array(f),h,d=0;d<
f;++d)(h=l[d]||u[d])&&(m[d]=h);for(;s<r;++s)o[s]=e[s];return new kt(o,this._parents,this._name,this._id)}function Rl(t){return(t+"").trim().split(/^|\s+/).every(
function(e){var n=e.indexOf(".");return n>=0&&(e=e.slice(0,n)),!e||e==="start"})}function Pl(t,e,n){var r,i,a=Rl(e)?gr:dt;return function(){var o=a(this,t),s=o.
on;s!==r&&(i=(r=s).copy()).on(e,n),o.on=i}}function Dl(t,e){var n=this._id;return arguments.length<2?ut(this.node(),n).on.on(t):this.each(Pl(n,t,e))}function Ll(t){
return function(){var e=this.parentNode;for(var n in this.__transition)if(+n!==t)return;e&&e.removeChild(this)}}function Fl(){return this.on("end.remove",Ll(this.
_id))}function ql(t){var e=this._name,n=this._id;typeof t!="function"&&(t=Le(t));for(var r=this._groups,i=r.length,a=new Array(i),o=0;o<i;++o)for(var s=r[o],l=s.
length,u=a[o]=new Array(l),f,m,h=0;h<l;++h)(f=s[h])&&(m=t.call(f,f.__data__,h,s))&&("__data__"in f&&(m.__data__=f.__data__),u[h]=m,an(u[h],e,n,h,u,ut(f,n)));return new kt(
a,this._parents,e,n)}function Bl(t){var e=this._name,n=this._id;typeof t!="function"&&(t=Un(t));for(var r=this._groups,i=r.length,a=[],o=[],s=0;s<i;++s)for(var l=r[s],
u=l.length,f,m=0;m<u;++m)if(f=l[m]){for(var h=t.call(f,f.__data__,m,l),d,p=ut(f,n),v=0,b=h.length;v<b;++v)(d=h[v])&&an(d,e,n,v,h,p);a.push(h),o.push(f)}return new kt(
a,o,e,n)}var Hl=Ot.prototype.constructor;function Ul(){return new Hl(this._groups,this._parents)}function Vl(t,e){var n,r,i;return function(){var a=Tt(this,t),o=(this.
style.removeProperty(t),Tt(this,t));return a===o?null:a===n&&o===r?i:i=e(n=a,r=o)}}function Ao(t){return function(){this.style.removeProperty(t)}}function Wl(t,e,n){
var r,i=n+"",a;return function(){var o=Tt(this,t);return o===i?null:o===r?a:a=e(r=o,n)}}function Xl(t,e,n){var r,i,a;return function(){var o=Tt(this,t),s=n(this),
l=s+"";return s==null&&(l=s=(this.style.removeProperty(t),Tt(this,t))),o===l?null:o===r&&l===i?a:(i=l,a=e(r=o,s))}}function Gl(t,e){var n,r,i,a="style."+e,o="en\
d."+a,s;return function(){var l=dt(this,t),u=l.on,f=l.value[a]==null?s||(s=Ao(e)):void 0;(u!==n||i!==f)&&(r=(n=u).copy()).on(o,i=f),l.on=r}}function Yl(t,e,n){var r=(t+=
"")=="transform"?ho:So;return e==null?this.styleTween(t,Vl(t,r)).on("end.style."+t,Ao(t)):typeof e=="function"?this.styleTween(t,Xl(t,r,_r(this,"style."+t,e))).
each(Gl(this._id,t)):this.styleTween(t,Wl(t,r,e),n).on("end.style."+t,null)}function Kl(t,e,n){return function(r){this.style.setProperty(t,e.call(this,r),n)}}function Ql(t,e,n){
var r,i;function a(){var o=e.apply(this,arguments);return o!==i&&(r=(i=o)&&Kl(t,o,n)),r}return a._value=e,a}function Zl(t,e,n){var r="style."+(t+="");if(arguments.
length<2)return(r=this.tween(r))&&r._value;if(e==null)return this.tween(r,null);if(typeof e!="function")throw new Error;return this.tween(r,Ql(t,e,n??""))}function Jl(t){
return function(){this.textContent=t}}function jl(t){return function(){var e=t(this);this.textContent=e??""}}function tc(t){return this.tween("text",typeof t=="\
function"?jl(_r(this,"text",t)):Jl(t==null?"":t+""))}function ec(t){return function(e){this.textContent=t.call(this,e)}}function nc(t){var e,n;function r(){var i=t.
apply(this,arguments);return i!==n&&(e=(n=i)&&ec(i)),e}return r._value=t,r}function rc(t){var e="text";if(arguments.length<1)return(e=this.tween(e))&&e._value;if(t==
null)return this.tween(e,null);if(typeof t!="function")throw new Error;return this.tween(e,nc(t))}function ic(){for(var t=this._name,e=this._id,n=Eo(),r=this._groups,
i=r.length,a=0;a<i;++a)for(var o=r[a],s=o.length,l,u=0;u<s;++u)if(l=o[u]){var f=ut(l,e);an(l,t,n,u,o,{time:f.time+f.delay+f.duration,delay:0,duration:f.duration,
ease:f.ease})}return new kt(r,this._parents,t,n)}function oc(){var t,e,n=this,r=n._id,i=n.size();return new Promise(function(a,o){var s={value:o},l={value:function(){
--i===0&&a()}};n.each(function(){var u=dt(this,r),f=u.on;f!==t&&(e=(t=f).copy(),e._.cancel.push(s),e._.interrupt.push(s),e._.end.push(l)),u.on=e}),i===0&&a()})}
var ac=0;function kt(t,e,n,r){this._groups=t,this._parents=e,this._name=n,this._id=r}function sc(t){return Ot().transition(t)}function Eo(){return++ac}var xt=Ot.
prototype;kt.prototype=sc.prototype={constructor:kt,select:ql,selectAll:Bl,selectChild:xt.selectChild,selectChildren:xt.selectChildren,filter:Ol,merge:zl,selection:Ul,
transition:ic,call:xt.call,nodes:xt.nodes,node:xt.node,size:xt.size,empty:xt.empty,each:xt.each,on:Dl,attr:_l,attrTween:xl,style:Yl,styleTween:Zl,text:tc,textTween:rc,
remove:Fl,tween:cl,delay:$l,duration:Al,ease:Cl,easeVarying:Tl,end:oc,[Symbol.iterator]:xt[Symbol.iterator]};var uc={time:null,delay:0,duration:250,ease:ko};function lc(t,e){
for(var n;!(n=t.__transition)||!(n=n[e]);)if(!(t=t.parentNode))throw new Error(`transition ${e} not found`);return n}function cc(t){var e,n;t instanceof kt?(e=t.
_id,t=t._name):(e=Eo(),(n=uc).time=en(),t=t==null?null:t+"");for(var r=this._groups,i=r.length,a=0;a<i;++a)for(var o=r[a],s=o.length,l,u=0;u<s;++u)(l=o[u])&&an(
l,t,e,u,o,n||lc(l,e));return new kt(r,this._parents,t,e)}Ot.prototype.interrupt=sl;Ot.prototype.transition=cc;var sn=t=>()=>t;function fc(t,{sourceEvent:e,target:n,transform:r,dispatch:i}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},sourceEvent:{
value:e,enumerable:!0,configurable:!0},target:{value:n,enumerable:!0,configurable:!0},transform:{value:r,enumerable:!0,configurable:!0},_:{value:i}})}function Mt(t,e,n){
this.k=t,this.x=e,this.y=n}Mt.prototype={constructor:Mt,scale:function(t){return t===1?this:new Mt(this.k*t,this.x,this.y)},translate:function(t,e){return t===0&
e===0?this:new Mt(this.k,this.x+this.k*t,this.y+this.k*e)},apply:function(t){return[t[0]*this.k+this.x,t[1]*this.k+this.y]},applyX:function(t){return t*this.k+this.
x},applyY:function(t){return t*this.k+this.y},invert:function(t){return[(t[0]-this.x)/this.k,(t[1]-this.y)/this.k]},invertX:function(t){return(t-this.x)/this.k},
invertY:function(t){return(t-this.y)/this.k},rescaleX:function(t){return t.copy().domain(t.range().map(this.invertX,this).map(t.invert,t))},rescaleY:function(t){
return t.copy().domain(t.range().map(this.invertY,this).map(t.invert,t))},toString:function(){return"translate("+this.x+","+this.y+") scale("+this.k+")"}};var Ft=new Mt(
1,0,0);hc.prototype=Mt.prototype;function hc(t){for(;!t.__zoom;)if(!(t=t.parentNode))return Ft;return t.__zoom}function yr(t){t.stopImmediatePropagation()}function be(t){
t.preventDefault(),t.stopImmediatePropagation()}function dc(t){return(!t.ctrlKey||t.type==="wheel")&&!t.button}function mc(){var t=this;return t instanceof SVGElement?
(t=t.ownerSVGElement||t,t.hasAttribute("viewBox")?(t=t.viewBox.baseVal,[[t.x,t.y],[t.x+t.width,t.y+t.height]]):[[0,0],[t.width.baseVal.value,t.height.baseVal.value]]):
[[0,0],[t.clientWidth,t.clientHeight]]}function Co(){return this.__zoom||Ft}function pc(t){return-t.deltaY*(t.deltaMode===1?.05:t.deltaMode?1:.002)*(t.ctrlKey?10:
1)}function gc(){return navigator.maxTouchPoints||"ontouchstart"in this}function _c(t,e,n){var r=t.invertX(e[0][0])-n[0][0],i=t.invertX(e[1][0])-n[1][0],a=t.invertY(
e[0][1])-n[0][1],o=t.invertY(e[1][1])-n[1][1];return t.translate(i>r?(r+i)/2:Math.min(0,r)||Math.max(0,i),o>a?(a+o)/2:Math.min(0,a)||Math.max(0,o))}function Io(){
var t=dc,e=mc,n=_c,r=pc,i=gc,a=[0,1/0],o=[[-1/0,-1/0],[1/0,1/0]],s=250,l=po,u=le("start","zoom","end"),f,m,h,d=500,p=150,v=0,b=10;function _(g){g.property("__zo\
om",Co).on("wheel.zoom",Q,{passive:!1}).on("mousedown.zoom",J).on("dblclick.zoom",H).filter(i).on("touchstart.zoom",j).on("touchmove.zoom",O).on("touchend.zoom \
touchcancel.zoom",mt).style("-webkit-tap-highlight-color","rgba(0,0,0,0)")}_.transform=function(g,x,y,k){var A=g.selection?g.selection():g;A.property("__zoom",Co),
g!==A?R(g,x,y,k):A.interrupt().each(function(){T(this,arguments).event(k).start().zoom(null,typeof x=="function"?x.apply(this,arguments):x).end()})},_.scaleBy=function(g,x,y,k){
_.scaleTo(g,function(){var A=this.__zoom.k,I=typeof x=="function"?x.apply(this,arguments):x;return A*I},y,k)},_.scaleTo=function(g,x,y,k){_.transform(g,function(){
var A=e.apply(this,arguments),I=this.__zoom,E=y==null?N(A):typeof y=="function"?y.apply(this,arguments):y,L=I.invert(E),U=typeof x=="function"?x.apply(this,arguments):
x;return n(w($(I,U),E,L),A,o)},y,k)},_.translateBy=function(g,x,y,k){_.transform(g,function(){return n(this.__zoom.translate(typeof x=="function"?x.apply(this,arguments):
x,typeof y=="function"?y.apply(this,arguments):y),e.apply(this,arguments),o)},null,k)},_.translateTo=function(g,x,y,k,A){_.transform(g,function(){var I=e.apply(
this,arguments),E=this.__zoom,L=k==null?N(I):typeof k=="function"?k.apply(this,arguments):k;return n(Ft.translate(L[0],L[1]).scale(E.k).translate(typeof x=="fun\
ction"?-x.apply(this,arguments):-x,typeof y=="function"?-y.apply(this,arguments):-y),I,o)},k,A)};function $(g,x){return x=Math.max(a[0],Math.min(a[1],x)),x===g.
k?g:new Mt(x,g.x,g.y)}function w(g,x,y){var k=x[0]-y[0]*g.k,A=x[1]-y[1]*g.k;return k===g.x&&A===g.y?g:new Mt(g.k,k,A)}function N(g){return[(+g[0][0]+ +g[1][0])/
2,(+g[0][1]+ +g[1][1])/2]}function R(g,x,y,k){g.on("start.zoom",function(){T(this,arguments).event(k).start()}).on("interrupt.zoom end.zoom",function(){T(this,arguments).
event(k).end()}).tween("zoom",function(){var A=this,I=arguments,E=T(A,I).event(k),L=e.apply(A,I),U=y==null?N(L):typeof y=="function"?y.apply(A,I):y,lt=Math.max(
L[1][0]-L[0][0],L[1][1]-L[0][1]),Y=A.__zoom,rt=typeof x=="function"?x.apply(A,I):x,pt=l(Y.invert(U).concat(lt/Y.k),rt.invert(U).concat(lt/rt.k));return function(it){
if(it===1)it=rt;else{var gt=pt(it),$n=lt/gt[2];it=new Mt($n,U[0]-gt[0]*$n,U[1]-gt[1]*$n)}E.zoom(null,it)}})}function T(g,x,y){return!y&&g.__zooming||new F(g,x)}
function F(g,x){this.that=g,this.args=x,this.active=0,this.sourceEvent=null,this.extent=e.apply(g,x),this.taps=0}F.prototype={event:function(g){return g&&(this.
sourceEvent=g),this},start:function(){return++this.active===1&&(this.that.__zooming=this,this.emit("start")),this},zoom:function(g,x){return this.mouse&&g!=="mo\
use"&&(this.mouse[1]=x.invert(this.mouse[0])),this.touch0&&g!=="touch"&&(this.touch0[1]=x.invert(this.touch0[0])),this.touch1&&g!=="touch"&&(this.touch1[1]=x.invert(
this.touch1[0])),this.that.__zoom=x,this.emit("zoom"),this},end:function(){return--this.active===0&&(delete this.that.__zooming,this.emit("end")),this},emit:function(g){
var x=Z(this.that).datum();u.call(g,this.that,new fc(g,{sourceEvent:this.sourceEvent,target:_,transform:this.that.__zoom,dispatch:u}),x)}};function Q(g,...x){if(!t.
apply(this,arguments))return;var y=T(this,x).event(g),k=this.__zoom,A=Math.max(a[0],Math.min(a[1],k.k*Math.pow(2,r.apply(this,arguments)))),I=vt(g);if(y.wheel)(y.
mouse[0][0]!==I[0]||y.mouse[0][1]!==I[1])&&(y.mouse[1]=k.invert(y.mouse[0]=I)),clearTimeout(y.wheel);else{if(k.k===A)return;y.mouse=[I,k.invert(I)],ve(this),y.start()}
be(g),y.wheel=setTimeout(E,p),y.zoom("mouse",n(w($(k,A),y.mouse[0],y.mouse[1]),y.extent,o));function E(){y.wheel=null,y.end()}}function J(g,...x){if(h||!t.apply(
this,arguments))return;var y=g.currentTarget,k=T(this,x,!0).event(g),A=Z(g.view).on("mousemove.zoom",U,!0).on("mouseup.zoom",lt,!0),I=vt(g,y),E=g.clientX,L=g.clientY;
Oi(g.view),yr(g),k.mouse=[I,this.__zoom.invert(I)],ve(this),k.start();function U(Y){if(be(Y),!k.moved){var rt=Y.clientX-E,pt=Y.clientY-L;k.moved=rt*rt+pt*pt>v}k.
event(Y).zoom("mouse",n(w(k.that.__zoom,k.mouse[0]=vt(Y,y),k.mouse[1]),k.extent,o))}function lt(Y){A.on("mousemove.zoom mouseup.zoom",null),zi(Y.view,k.moved),be(
Y),k.event(Y).end()}}function H(g,...x){if(t.apply(this,arguments)){var y=this.__zoom,k=vt(g.changedTouches?g.changedTouches[0]:g,this),A=y.invert(k),I=y.k*(g.shiftKey?
.5:2),E=n(w($(y,I),k,A),e.apply(this,x),o);be(g),s>0?Z(this).transition().duration(s).call(R,E,k,g):Z(this).call(_.transform,E,k,g)}}function j(g,...x){if(t.apply(
this,arguments)){var y=g.touches,k=y.length,A=T(this,x,g.changedTouches.length===k).event(g),I,E,L,U;for(yr(g),E=0;E<k;++E)L=y[E],U=vt(L,this),U=[U,this.__zoom.
invert(U),L.identifier],A.touch0?!A.touch1&&A.touch0[2]!==U[2]&&(A.touch1=U,A.taps=0):(A.touch0=U,I=!0,A.taps=1+!!f);f&&(f=clearTimeout(f)),I&&(A.taps<2&&(m=U[0],
f=setTimeout(function(){f=null},d)),ve(this),A.start())}}function O(g,...x){if(this.__zooming){var y=T(this,x).event(g),k=g.changedTouches,A=k.length,I,E,L,U;for(be(
g),I=0;I<A;++I)E=k[I],L=vt(E,this),y.touch0&&y.touch0[2]===E.identifier?y.touch0[0]=L:y.touch1&&y.touch1[2]===E.identifier&&(y.touch1[0]=L);if(E=y.that.__zoom,y.
touch1){var lt=y.touch0[0],Y=y.touch0[1],rt=y.touch1[0],pt=y.touch1[1],it=(it=rt[0]-lt[0])*it+(it=rt[1]-lt[1])*it,gt=(gt=pt[0]-Y[0])*gt+(gt=pt[1]-Y[1])*gt;E=$(E,
Math.sqrt(it/gt)),L=[(lt[0]+rt[0])/2,(lt[1]+rt[1])/2],U=[(Y[0]+pt[0])/2,(Y[1]+pt[1])/2]}else if(y.touch0)L=y.touch0[0],U=y.touch0[1];else return;y.zoom("touch",
n(w(E,L,U),y.extent,o))}}function mt(g,...x){if(this.__zooming){var y=T(this,x).event(g),k=g.changedTouches,A=k.length,I,E;for(yr(g),h&&clearTimeout(h),h=setTimeout(
function(){h=null},d),I=0;I<A;++I)E=k[I],y.touch0&&y.touch0[2]===E.identifier?delete y.touch0:y.touch1&&y.touch1[2]===E.identifier&&delete y.touch1;if(y.touch1&&
!y.touch0&&(y.touch0=y.touch1,delete y.touch1),y.touch0)y.touch0[1]=this.__zoom.invert(y.touch0[0]);else if(y.end(),y.taps===2&&(E=vt(E,this),Math.hypot(m[0]-E[0],
m[1]-E[1])<b)){var L=Z(this).on("dblclick.zoom");L&&L.apply(this,arguments)}}}return _.wheelDelta=function(g){return arguments.length?(r=typeof g=="function"?g:
sn(+g),_):r},_.filter=function(g){return arguments.length?(t=typeof g=="function"?g:sn(!!g),_):t},_.touchable=function(g){return arguments.length?(i=typeof g=="\
function"?g:sn(!!g),_):i},_.extent=function(g){return arguments.length?(e=typeof g=="function"?g:sn([[+g[0][0],+g[0][1]],[+g[1][0],+g[1][1]]]),_):e},_.scaleExtent=
function(g){return arguments.length?(a[0]=+g[0],a[1]=+g[1],_):[a[0],a[1]]},_.translateExtent=function(g){return arguments.length?(o[0][0]=+g[0][0],o[1][0]=+g[1][0],
o[0][1]=+g[0][1],o[1][1]=+g[1][1],_):[[o[0][0],o[0][1]],[o[1][0],o[1][1]]]},_.constrain=function(g){return arguments.length?(n=g,_):n},_.duration=function(g){return arguments.
length?(s=+g,_):s},_.interpolate=function(g){return arguments.length?(l=g,_):l},_.on=function(){var g=u.on.apply(u,arguments);return g===u?_:g},_.clickDistance=
function(g){return arguments.length?(v=(g=+g)*g,_):Math.sqrt(v)},_.tapDistance=function(g){return arguments.length?(b=+g,_):b},_}function we(t,e){return t==null||e==null?NaN:t<e?-1:t>e?1:t>=e?0:NaN}function yc(t,e){return t==null||e==null?NaN:e<t?-1:e>t?1:e>=t?0:NaN}function To(t){let e,n,
r;t.length!==2?(e=we,n=(s,l)=>we(t(s),l),r=(s,l)=>t(s)-l):(e=t===we||t===yc?t:vc,n=t,r=t);function i(s,l,u=0,f=s.length){if(u<f){if(e(l,l)!==0)return f;do{let m=u+
f>>>1;n(s[m],l)<0?u=m+1:f=m}while(u<f)}return u}function a(s,l,u=0,f=s.length){if(u<f){if(e(l,l)!==0)return f;do{let m=u+f>>>1;n(s[m],l)<=0?u=m+1:f=m}while(u<f)}
return u}function o(s,l,u=0,f=s.length){let m=i(s,l,u,f-1);return m>u&&r(s[m-1],l)>-r(s[m],l)?m-1:m}return{left:i,center:o,right:a}}function vc(){return 0}function bc(t){
return t===null?NaN:+t}var Oo=To(we),zo=Oo.right,Vh=Oo.left,Wh=To(bc).center;var Xh=Ro(Po),Gh=Ro(wc);function Ro(t){return function(e,n,r=n){if(!((n=+n)>=0))throw new RangeError("invalid rx");if(!((r=+r)>=0))throw new RangeError("invalid\
 ry");let{data:i,width:a,height:o}=e;if(!((a=Math.floor(a))>=0))throw new RangeError("invalid width");if(!((o=Math.floor(o!==void 0?o:i.length/a))>=0))throw new RangeError(
"invalid height");if(!a||!o||!n&&!r)return e;let s=n&&t(n),l=r&&t(r),u=i.slice();return s&&l?(Zt(s,u,i,a,o),Zt(s,i,u,a,o),Zt(s,u,i,a,o),Jt(l,i,u,a,o),Jt(l,u,i,a,
o),Jt(l,i,u,a,o)):s?(Zt(s,i,u,a,o),Zt(s,u,i,a,o),Zt(s,i,u,a,o)):l&&(Jt(l,i,u,a,o),Jt(l,u,i,a,o),Jt(l,i,u,a,o)),e}}function Zt(t,e,n,r,i){for(let a=0,o=r*i;a<o;)
t(e,n,a,a+=r,1)}function Jt(t,e,n,r,i){for(let a=0,o=r*i;a<r;++a)t(e,n,a,a+o,r)}function wc(t){let e=Po(t);return(n,r,i,a,o)=>{i<<=2,a<<=2,o<<=2,e(n,r,i+0,a+0,o),
e(n,r,i+1,a+1,o),e(n,r,i+2,a+2,o),e(n,r,i+3,a+3,o)}}function Po(t){let e=Math.floor(t);if(e===t)return xc(t);let n=t-e,r=2*t+1;return(i,a,o,s,l)=>{if(!((s-=l)>=
o))return;let u=e*a[o],f=l*e,m=f+l;for(let h=o,d=o+f;h<d;h+=l)u+=a[Math.min(s,h)];for(let h=o,d=s;h<=d;h+=l)u+=a[Math.min(s,h+f)],i[h]=(u+n*(a[Math.max(o,h-m)]+
a[Math.min(s,h+m)]))/r,u-=a[Math.max(o,h-f)]}}function xc(t){let e=2*t+1;return(n,r,i,a,o)=>{if(!((a-=o)>=i))return;let s=t*r[i],l=o*t;for(let u=i,f=i+l;u<f;u+=
o)s+=r[Math.min(a,u)];for(let u=i,f=a;u<=f;u+=o)s+=r[Math.min(a,u+l)],n[u]=s/e,s-=r[Math.max(i,u-l)]}}var kc=Array.prototype,Yh=kc.slice;var Mc=Math.sqrt(50),$c=Math.sqrt(10),Nc=Math.sqrt(2);function un(t,e,n){let r=(e-t)/Math.max(0,n),i=Math.floor(Math.log10(r)),a=r/Math.pow(10,i),o=a>=Mc?10:a>=
$c?5:a>=Nc?2:1,s,l,u;return i<0?(u=Math.pow(10,-i)/o,s=Math.round(t*u),l=Math.round(e*u),s/u<t&&++s,l/u>e&&--l,u=-u):(u=Math.pow(10,i)*o,s=Math.round(t/u),l=Math.
round(e/u),s*u<t&&++s,l*u>e&&--l),l<s&&.5<=n&&n<2?un(t,e,n*2):[s,l,u]}function cn(t,e,n){if(e=+e,t=+t,n=+n,!(n>0))return[];if(t===e)return[t];let r=e<t,[i,a,o]=r?
un(e,t,n):un(t,e,n);if(!(a>=i))return[];let s=a-i+1,l=new Array(s);if(r)if(o<0)for(let u=0;u<s;++u)l[u]=(a-u)/-o;else for(let u=0;u<s;++u)l[u]=(a-u)*o;else if(o<
0)for(let u=0;u<s;++u)l[u]=(i+u)/-o;else for(let u=0;u<s;++u)l[u]=(i+u)*o;return l}function ln(t,e,n){return e=+e,t=+t,n=+n,un(t,e,n)[2]}function Do(t,e,n){e=+e,
t=+t,n=+n;let r=e<t,i=r?ln(e,t,n):ln(t,e,n);return(r?-1:1)*(i<0?1/-i:i)}var Kh=Sc(Math.random);function Sc(t){return function(n,r=0,i=n.length){let a=i-(r=+r);for(;a;){let o=t()*a--|0,s=n[a+r];n[a+r]=n[o+r],n[o+r]=s}return n}}function Ac(t){return Math.abs(t=Math.round(t))>=1e21?t.toLocaleString("en").replace(/,/g,""):t.toString(10)}function hn(t,e){if(!isFinite(t)||t===0)return null;
var n=(t=e?t.toExponential(e-1):t.toExponential()).indexOf("e"),r=t.slice(0,n);return[r.length>1?r[0]+r.slice(2):r,+t.slice(n+1)]}function jt(t){return t=hn(Math.
abs(t)),t?t[1]:NaN}function Ec(t,e){return function(n,r){for(var i=n.length,a=[],o=0,s=t[0],l=0;i>0&&s>0&&(l+s+1>r&&(s=Math.max(1,r-l)),a.push(n.substring(i-=s,
i+s)),!((l+=s+1)>r));)s=t[o=(o+1)%t.length];return a.reverse().join(e)}}function Cc(t){return function(e){return e.replace(/[0-9]/g,function(n){return t[+n]})}}
var Ic=/^(?:(.)?([<>=^]))?([+\-( ])?([$#])?(0)?(\d+)?(,)?(\.\d+)?(~)?([a-z%])?$/i;function te(t){if(!(e=Ic.exec(t)))throw new Error("invalid format: "+t);var e;
return new vr({fill:e[1],align:e[2],sign:e[3],symbol:e[4],zero:e[5],width:e[6],comma:e[7],precision:e[8]&&e[8].slice(1),trim:e[9],type:e[10]})}te.prototype=vr.prototype;
function vr(t){this.fill=t.fill===void 0?" ":t.fill+"",this.align=t.align===void 0?">":t.align+"",this.sign=t.sign===void 0?"-":t.sign+"",this.symbol=t.symbol===
void 0?"":t.symbol+"",this.zero=!!t.zero,this.width=t.width===void 0?void 0:+t.width,this.comma=!!t.comma,this.precision=t.precision===void 0?void 0:+t.precision,
this.trim=!!t.trim,this.type=t.type===void 0?"":t.type+""}vr.prototype.toString=function(){return this.fill+this.align+this.sign+this.symbol+(this.zero?"0":"")+
(this.width===void 0?"":Math.max(1,this.width|0))+(this.comma?",":"")+(this.precision===void 0?"":"."+Math.max(0,this.precision|0))+(this.trim?"~":"")+this.type};
function Tc(t){t:for(var e=t.length,n=1,r=-1,i;n<e;++n)switch(t[n]){case".":r=i=n;break;case"0":r===0&&(r=n),i=n;break;default:if(!+t[n])break t;r>0&&(r=0);break}
return r>0?t.slice(0,r)+t.slice(i+1):t}var dn;function Oc(t,e){var n=hn(t,e);if(!n)return dn=void 0,t.toPrecision(e);var r=n[0],i=n[1],a=i-(dn=Math.max(-8,Math.
min(8,Math.floor(i/3)))*3)+1,o=r.length;return a===o?r:a>o?r+new Array(a-o+1).join("0"):a>0?r.slice(0,a)+"."+r.slice(a):"0."+new Array(1-a).join("0")+hn(t,Math.
max(0,e+a-1))[0]}function Lo(t,e){var n=hn(t,e);if(!n)return t+"";var r=n[0],i=n[1];return i<0?"0."+new Array(-i).join("0")+r:r.length>i+1?r.slice(0,i+1)+"."+r.
slice(i+1):r+new Array(i-r.length+2).join("0")}var Fo={"%":(t,e)=>(t*100).toFixed(e),b:t=>Math.round(t).toString(2),c:t=>t+"",d:Ac,e:(t,e)=>t.toExponential(e),f:(t,e)=>t.
toFixed(e),g:(t,e)=>t.toPrecision(e),o:t=>Math.round(t).toString(8),p:(t,e)=>Lo(t*100,e),r:Lo,s:Oc,X:t=>Math.round(t).toString(16).toUpperCase(),x:t=>Math.round(
t).toString(16)};function qo(t){return t}var Bo=Array.prototype.map,Ho=["y","z","a","f","p","n","\xB5","m","","k","M","G","T","P","E","Z","Y"];function zc(t){var e=t.
grouping===void 0||t.thousands===void 0?qo:Ec(Bo.call(t.grouping,Number),t.thousands+""),n=t.currency===void 0?"":t.currency[0]+"",r=t.currency===void 0?"":t.currency[1]+
"",i=t.decimal===void 0?".":t.decimal+"",a=t.numerals===void 0?qo:Cc(Bo.call(t.numerals,String)),o=t.percent===void 0?"%":t.percent+"",s=t.minus===void 0?"\u2212":
t.minus+"",l=t.nan===void 0?"NaN":t.nan+"";function u(m,h){m=te(m);var d=m.fill,p=m.align,v=m.sign,b=m.symbol,_=m.zero,$=m.width,w=m.comma,N=m.precision,R=m.trim,
T=m.type;T==="n"?(w=!0,T="g"):Fo[T]||(N===void 0&&(N=12),R=!0,T="g"),(_||d==="0"&&p==="=")&&(_=!0,d="0",p="=");var F=(h&&h.prefix!==void 0?h.prefix:"")+(b==="$"?
n:b==="#"&&/[boxX]/.test(T)?"0"+T.toLowerCase():""),Q=(b==="$"?r:/[%p]/.test(T)?o:"")+(h&&h.suffix!==void 0?h.suffix:""),J=Fo[T],H=/[defgprs%]/.test(T);N=N===void 0?
6:/[gprs]/.test(T)?Math.max(1,Math.min(21,N)):Math.max(0,Math.min(20,N));function j(O){var mt=F,g=Q,x,y,k;if(T==="c")g=J(O)+g,O="";else{O=+O;var A=O<0||1/O<0;if(O=
isNaN(O)?l:J(Math.abs(O),N),R&&(O=Tc(O)),A&&+O==0&&v!=="+"&&(A=!1),mt=(A?v==="("?v:s:v==="-"||v==="("?"":v)+mt,g=(T==="s"&&!isNaN(O)&&dn!==void 0?Ho[8+dn/3]:"")+
g+(A&&v==="("?")":""),H){for(x=-1,y=O.length;++x<y;)if(k=O.charCodeAt(x),48>k||k>57){g=(k===46?i+O.slice(x+1):O.slice(x))+g,O=O.slice(0,x);break}}}w&&!_&&(O=e(O,
1/0));var I=mt.length+O.length+g.length,E=I<$?new Array($-I+1).join(d):"";switch(w&&_&&(O=e(E+O,E.length?$-g.length:1/0),E=""),p){case"<":O=mt+O+g+E;break;case"\
=":O=mt+E+O+g;break;case"^":O=E.slice(0,I=E.length>>1)+mt+O+g+E.slice(I);break;default:O=E+mt+O+g;break}return a(O)}return j.toString=function(){return m+""},j}
function f(m,h){var d=Math.max(-8,Math.min(8,Math.floor(jt(h)/3)))*3,p=Math.pow(10,-d),v=u((m=te(m),m.type="f",m),{suffix:Ho[8+d/3]});return function(b){return v(
p*b)}}return{format:u,formatPrefix:f}}var fn,mn,br;Rc({thousands:",",grouping:[3],currency:["$",""]});function Rc(t){return fn=zc(t),mn=fn.format,br=fn.formatPrefix,
fn}function Uo(t){return Math.max(0,-jt(Math.abs(t)))}function Vo(t,e){return Math.max(0,Math.max(-8,Math.min(8,Math.floor(jt(e)/3)))*3-jt(Math.abs(t)))}function Wo(t,e){
return t=Math.abs(t),e=Math.abs(e)-t,Math.max(0,jt(e)-jt(t))+1}function Qo(t,e){switch(arguments.length){case 0:break;case 1:this.range(t);break;default:this.range(e).domain(t);break}return this}function Pc(t){return function(){return t}}function Dc(t){return+t}var Xo=[0,1];function ee(t){return t}function wr(t,e){return(e-=t=+t)?function(n){return(n-t)/
e}:Pc(isNaN(e)?NaN:.5)}function Lc(t,e){var n;return t>e&&(n=t,t=e,e=n),function(r){return Math.max(t,Math.min(e,r))}}function Fc(t,e,n){var r=t[0],i=t[1],a=e[0],
o=e[1];return i<r?(r=wr(i,r),a=n(o,a)):(r=wr(r,i),a=n(a,o)),function(s){return a(r(s))}}function qc(t,e,n){var r=Math.min(t.length,e.length)-1,i=new Array(r),a=new Array(
r),o=-1;for(t[r]<t[0]&&(t=t.slice().reverse(),e=e.slice().reverse());++o<r;)i[o]=wr(t[o],t[o+1]),a[o]=n(e[o],e[o+1]);return function(s){var l=zo(t,s,1,r)-1;return a[l](
i[l](s))}}function Zo(t,e){return e.domain(t.domain()).range(t.range()).interpolate(t.interpolate()).clamp(t.clamp()).unknown(t.unknown())}function Jo(){var t=Xo,
e=Xo,n=Qe,r,i,a,o=ee,s,l,u;function f(){var h=Math.min(t.length,e.length);return o!==ee&&(o=Lc(t[0],t[h-1])),s=h>2?qc:Fc,l=u=null,m}function m(h){return h==null||
isNaN(h=+h)?a:(l||(l=s(t.map(r),e,n)))(r(o(h)))}return m.invert=function(h){return o(i((u||(u=s(e,t.map(r),nt)))(h)))},m.domain=function(h){return arguments.length?
(t=Array.from(h,Dc),f()):t.slice()},m.range=function(h){return arguments.length?(e=Array.from(h),f()):e.slice()},m.rangeRound=function(h){return e=Array.from(h),
n=lo,f()},m.clamp=function(h){return arguments.length?(o=h?!0:ee,f()):o!==ee},m.interpolate=function(h){return arguments.length?(n=h,f()):n},m.unknown=function(h){
return arguments.length?(a=h,m):a},function(h,d){return r=h,i=d,f()}}function Bc(){return Jo()(ee,ee)}function Hc(t,e,n,r){var i=Do(t,e,n),a;switch(r=te(r??",f"),
r.type){case"s":{var o=Math.max(Math.abs(t),Math.abs(e));return r.precision==null&&!isNaN(a=Vo(i,o))&&(r.precision=a),br(r,o)}case"":case"e":case"g":case"p":case"\
r":{r.precision==null&&!isNaN(a=Wo(i,Math.max(Math.abs(t),Math.abs(e))))&&(r.precision=a-(r.type==="e"));break}case"f":case"%":{r.precision==null&&!isNaN(a=Uo(i))&&
(r.precision=a-(r.type==="%")*2);break}}return mn(r)}function Uc(t){var e=t.domain;return t.ticks=function(n){var r=e();return cn(r[0],r[r.length-1],n??10)},t.tickFormat=
function(n,r){var i=e();return Hc(i[0],i[i.length-1],n??10,r)},t.nice=function(n){n==null&&(n=10);var r=e(),i=0,a=r.length-1,o=r[i],s=r[a],l,u,f=10;for(s<o&&(u=
o,o=s,s=u,u=i,i=a,a=u);f-- >0;){if(u=ln(o,s,n),u===l)return r[i]=o,r[a]=s,e(r);if(u>0)o=Math.floor(o/u)*u,s=Math.ceil(s/u)*u;else if(u<0)o=Math.ceil(o*u)/u,s=Math.
floor(s*u)/u;else break;l=u}return t},t}function pn(){var t=Bc();return t.copy=function(){return Zo(t,pn())},Qo.apply(t,arguments),Uc(t)}function Vc(t,e){t=t.slice();var n=0,r=t.length-1,i=t[n],a=t[r],o;return a<i&&(o=n,n=r,r=o,o=i,i=a,a=o),t[n]=e.floor(i),t[r]=e.ceil(a),t}function Go(t){return Math.
log(t)}function Yo(t){return Math.exp(t)}function Wc(t){return-Math.log(-t)}function Xc(t){return-Math.exp(-t)}function Gc(t){return isFinite(t)?+("1e"+t):t<0?0:
t}function Yc(t){return t===10?Gc:t===Math.E?Math.exp:e=>Math.pow(t,e)}function Kc(t){return t===Math.E?Math.log:t===10&&Math.log10||t===2&&Math.log2||(t=Math.log(
t),e=>Math.log(e)/t)}function Ko(t){return(e,n)=>-t(-e,n)}function Qc(t){let e=t(Go,Yo),n=e.domain,r=10,i,a;function o(){return i=Kc(r),a=Yc(r),n()[0]<0?(i=Ko(i),
a=Ko(a),t(Wc,Xc)):t(Go,Yo),e}return e.base=function(s){return arguments.length?(r=+s,o()):r},e.domain=function(s){return arguments.length?(n(s),o()):n()},e.ticks=
s=>{let l=n(),u=l[0],f=l[l.length-1],m=f<u;m&&([u,f]=[f,u]);let h=i(u),d=i(f),p,v,b=s==null?10:+s,_=[];if(!(r%1)&&d-h<b){if(h=Math.floor(h),d=Math.ceil(d),u>0){
for(;h<=d;++h)for(p=1;p<r;++p)if(v=h<0?p/a(-h):p*a(h),!(v<u)){if(v>f)break;_.push(v)}}else for(;h<=d;++h)for(p=r-1;p>=1;--p)if(v=h>0?p/a(-h):p*a(h),!(v<u)){if(v>
f)break;_.push(v)}_.length*2<b&&(_=cn(u,f,b))}else _=cn(h,d,Math.min(d-h,b)).map(a);return m?_.reverse():_},e.tickFormat=(s,l)=>{if(s==null&&(s=10),l==null&&(l=
r===10?"s":","),typeof l!="function"&&(!(r%1)&&(l=te(l)).precision==null&&(l.trim=!0),l=mn(l)),s===1/0)return l;let u=Math.max(1,r*s/e.ticks().length);return f=>{
let m=f/a(Math.round(i(f)));return m*r<r-.5&&(m*=r),m<=u?l(f):""}},e.nice=()=>n(Vc(n(),{floor:s=>a(Math.floor(i(s))),ceil:s=>a(Math.ceil(i(s)))})),e}function gn(){
let t=Qc(Jo()).domain([1,10]);return t.copy=()=>Zo(t,gn()).base(t.base()),Qo.apply(t,arguments),t}var[_n,xe,yn,xr,kr]=[520,240,48,34,10];function vn({rows:t,limits:e,pick:n}){let r=t.filter(p=>p.intensity&&p.gflops);if(!r.length)return c("p",{class:"note",children:"\
No node of these multiplies matrices."});let i=[...new Set(r.map(p=>p.narrow&&e.gops||e.gflops))],a=Math.max(...i),o=e.reading.at(-1)[1],s=Math.max(...e.reading.
map(([,p])=>p)),l=r.map(p=>p.intensity),u=gn([Math.min(.1,...l)/2,Math.max(100,...l)*2],[yn,_n-10]),f=gn([Math.min(e.gflops/100,...r.map(p=>p.gflops))/2,Math.max(
a,...r.map(p=>p.gflops))*2],[xe-xr,kr]),[m,h]=u.domain(),d=(p,v)=>{let[b,_]=[Math.max(m,f.domain()[0]/p),v/p];return`M${u(b)} ${f(Math.min(v,b*p))}L${u(Math.min(
h,Math.max(m,_)))} ${f(Math.min(v,h*p))}H${u(h)}`};return c("figure",{children:[c("svg",{class:"plot roofs",viewBox:`0 0 ${_n} ${xe}`,role:"group","aria-label":"\
Roofline: GFLOP/s by floating-point operations for each byte",children:[u.ticks(4).filter(p=>Number.isInteger(Math.log10(p))).map(p=>c("g",{class:"tick",children:[
c("path",{d:`M${u(p)} ${kr}V${xe-xr}`}),c("text",{x:u(p),y:xe-xr+14,"text-anchor":"middle",children:q(p)})]},`x${p}`)),f.ticks(4).filter(p=>Number.isInteger(Math.
log10(p))).map(p=>c("g",{class:"tick",children:[c("path",{d:`M${yn} ${f(p)}H${_n-10}`}),c("text",{x:yn-6,y:f(p)+4,"text-anchor":"end",children:q(p)})]},`y${p}`)),
i.map(p=>c("path",{class:"roof",d:d(s,p)},p)),c("path",{class:"roof memory",d:d(o,a)}),r.map(p=>c("circle",{cx:u(p.intensity),cy:f(p.gflops),r:4+8*Math.sqrt(p.share??
0),onClick:n&&(()=>n(p.index)),class:n?"pick":"",children:c("title",{children:`${z(W(p),60)}: ${q(p.gflops)} GFLOP/s at ${q(p.intensity)} FLOP/byte`})},p.index)),
c("text",{class:"axis",x:_n-10,y:xe-4,"text-anchor":"end",children:"FLOP for each byte"}),c("text",{class:"axis",x:yn,y:kr+2,dx:"4",dy:"8",children:"GFLOP/s"})]}),
c("figcaption",{class:"note",children:["Limits measured on this machine: ",i.map(p=>`${q(p)} ${p===e.gflops?"GFLOP/s":"GOP/s of 8-bit integers"}`).join(", "),";\
 reading ",q(s)," GB/s from the first cache, ",q(o)," GB/s from memory (the lower line)."]})]})}var Zc=[{id:"time",name:"time",value:t=>t.took},{id:"bytes",name:"bytes of weights",value:t=>t.weights_bytes},{id:"work",name:"multiply-adds",value:t=>t.multiply_adds},
{id:"error",name:"error",value:t=>t.error},{id:"none",name:"nothing",value:()=>null}],$r=.42,bn=.5,Mr=4;function ta({subject:t,picked:e,setPicked:n}){let r=Zc.filter(
f=>f.id==="none"||t.rows.some(m=>f.value(m))),[i,a]=X(r[0]),[o,s]=X(""),l=at(()=>o?t.rows.filter(f=>`${W(f)} ${f.kernelName}`.toLowerCase().includes(o.toLowerCase())):
[],[o,t]);return c(D,{children:[c("form",{class:"tools",onSubmit:f=>{if(f.preventDefault(),!l.length)return;let m=l.findIndex(h=>h.index===e);n(l[(m+1)%l.length].
index)},children:[c("label",{children:["colour by ",c("select",{value:i.id,onChange:f=>a(r.find(m=>m.id===f.currentTarget.value)),children:r.map(f=>c("option",{
value:f.id,children:f.name},f.id))})]}),c("label",{children:["Find ",c("input",{type:"search",value:o,onInput:f=>s(f.currentTarget.value)})]}),c("button",{type:"\
submit",disabled:!l.length,children:"Next"}),c("span",{class:"note","aria-live":"polite",children:o?`${l.length} nodes`:`${C(t.rows.length)} nodes, in the order\
 in which they run`})]}),c("div",{class:"graph",children:[c(Jc,{subject:t,colour:i,picked:e,setPicked:n,found:l}),e===null?c("p",{class:"card note side",children:"\
A box is a kernel with the model's nodes that it computes. Click one; drag moves the picture, the wheel or two fingers scale it."}):c(ef,{subject:t,row:t.rows[e],
setPicked:n})]})]})}function Jc({subject:t,colour:e,picked:n,setPicked:r,found:i}){let{picture:a,rows:o}=t,s=se(null),l=se(null),u=se(null),[f,m]=X({x:0,y:0,width:0,
height:0,words:!1}),h=at(()=>Math.max(...o.map(w=>e.value(w)??0),0),[o,e]),d=at(()=>nf(t),[t]),p=at(()=>new Set(i.map(w=>w.index)),[i]);Ut(()=>{let w=s.current,
N=null,R=({transform:F})=>{l.current.setAttribute("transform",F);let[Q,J]=[w.clientWidth/F.k,w.clientHeight/F.k],[H,j]=[-F.x/F.k,-F.y/F.k],O=F.k>=$r;N&&N.words===
O&&H>=N.x&&j>=N.y&&H+Q<=N.x+N.width&&j+J<=N.y+N.height&&Q>N.width/6||(N={x:H-bn*Q,y:j-bn*J,width:(1+2*bn)*Q,height:(1+2*bn)*J,words:O},m(N))},T=Io().scaleExtent(
[.005,3]).on("zoom",R);return u.current=T,Z(w).call(T).on("dblclick.zoom",null),Z(w).call(T.transform,jo(w,a,n===null?null:a.nodes[n])),()=>Z(w).on(".zoom",null)},
[t]),Ut(()=>{if(n===null)return;let[w,N]=a.nodes[n],R=s.current.__zoom,[T,F]=R.apply([w,N]);(T<60||F<30||T>s.current.clientWidth-60||F>s.current.clientHeight-30||
R.k<$r)&&Z(s.current).call(u.current.transform,jo(s.current,a,[w,N]))},[n]);let v=([w,N,R,T])=>w+R/2>f.x&&w-R/2<f.x+f.width&&N+T/2>f.y&&N-T/2<f.y+f.height,b=f.width?
o.filter(w=>v(a.nodes[w.index])):[],_=w=>Z(s.current).call(u.current.scaleBy,w);return c("div",{class:"canvas",children:[c("svg",{ref:s,role:"group","aria-label":"\
Graph of the kernels; up and down go from node to node, plus and minus scale",tabIndex:0,onKeyDown:w=>{let N={ArrowDown:1,ArrowUp:-1}[w.key];if(N&&n!==null)r(Math.
min(o.length-1,Math.max(0,n+N)));else if(w.key==="+"||w.key==="-")_(w.key==="+"?1.4:1/1.4);else return;w.preventDefault()},children:c("g",{ref:l,children:[t.control.
map((w,N)=>c(tf,{row:w,picture:a},N)),c("path",{class:"edges",d:d.forward}),c("path",{class:"edges back",d:d.back}),n!==null&&c("path",{class:"edges own",d:d.own(
n)}),b.map(w=>c(jc,{row:w,place:a.nodes[w.index],words:f.words,heat:h?(e.value(w)??0)/h:0,picked:w.index===n,marked:p.has(w.index),pick:()=>r(w.index),time:t.time},
w.index))]})}),c("div",{class:"scale",children:[c("button",{type:"button",onClick:()=>_(1.4),"aria-label":"Larger",children:"+"}),c("button",{type:"button",onClick:()=>_(
1/1.4),"aria-label":"Smaller",children:"\u2212"}),c("button",{type:"button",onClick:()=>Z(s.current).call(u.current.transform,na(s.current,a)),children:"All"})]})]})}
function jc({row:t,place:[e,n,r,i],words:a,heat:o,picked:s,marked:l,pick:u,time:f}){let m=t.sources.length>Mr?[...t.sources.slice(0,Mr),`and ${t.sources.length-
Mr} more`]:t.sources,h=`node ${t.index}: ${z(W(t),80)}`,d=t.within.filter(p=>p.branch).at(-1)?.branch;return c("g",{class:`node${s?" picked":""}${l?" marked":""}`,
transform:`translate(${e-r/2} ${n-i/2})`,onClick:u,"data-node":t.index,children:[c("title",{children:`${h}
${M(t.kernelName)}`}),c("rect",{width:r,height:i,rx:a?6:2,style:{"--heat":`${Math.round(100*Math.sqrt(o))*(a?.55:1)}%`}}),a&&c(D,{children:[c("text",{class:"hea\
d",x:"10",y:"18",children:z(t.kernelName,18)}),c("text",{class:"took",x:r-10,y:"18",children:f?ea(f,t):""}),c("text",{class:"shape",x:"10",y:"34",children:[t.device&&
z(t.device,10),t.share!==null&&ct(t.share),d].filter(Boolean).join("  ")}),m.map((p,v)=>c("text",{class:"source",x:"10",y:50+15*v-2,children:z(p,30)},v))]})]})}
var ea=(t,e)=>e.calls===0?"not run":yt(t,e.took);function tf({row:t,picture:e}){let n=e.nodes.slice(t.nodes[0],t.nodes.at(-1));if(!n.length)return null;let r=Math.
min(...n.map(([s,,l])=>s-l/2))-16,i=Math.max(...n.map(([s,,l])=>s+l/2))+16,a=Math.min(...n.map(([,s,,l])=>s-l/2))-24,o=Math.max(...n.map(([,s,,l])=>s+l/2))+10;return c(
"g",{class:"region",children:[c("rect",{x:r,y:a,width:i-r,height:o-a,rx:"10"}),c("text",{x:r+10,y:a+16,children:[`${t.op} ${z(t.name,30)}`,Fn(t)].filter(Boolean).
join(", ")})]})}function ef({subject:t,row:e,setPicked:n}){let{tensors:r,kernels:i,time:a}=t,o=i[e.kernel],s=t.rows.filter(m=>m.kernel===e.kernel),l=t.links.filter(
([,m])=>m===e.index).map(([m,,,h])=>[m,h&&"of the iteration before"]),u=t.links.filter(([m])=>m===e.index).map(([,m,,h])=>[m,h&&"in the next iteration"]),f=m=>m.
map(([h,d],p)=>c("span",{children:[p?", ":"",c("button",{type:"button",class:"link",onClick:()=>n(h),children:h}),d?` ${d}`:""]},p));return c("section",{class:"\
card side","aria-live":"polite",children:[c("h2",{title:M(W(e)),children:z(W(e),60)}),c("dl",{class:"plain",children:[c("div",{children:[c("dt",{children:"node"}),
c("dd",{children:[e.index,e.device?` on ${M(e.device)}`:"","; reads ",l.length?f(l):"no other",", read by ",u.length?f(u):"no other"]})]}),e.stay&&c("div",{children:[
c("dt",{children:"on the CPU"}),c("dd",{children:["it ",M(e.stay)]})]}),e.within.length>0&&c("div",{children:[c("dt",{children:"part of"}),c("dd",{children:e.within.
map(m=>[`${m.op} ${M(m.name)}`,m.branch,Fn(m)].filter(Boolean).join(", ")).join("; ")})]}),a&&c("div",{children:[c("dt",{children:a.unit==="ns"?"time":"counted"}),
c("dd",{children:[ea(a,e),", ",ct(e.share)," of the run",e.calls>1?`; computed ${C(e.calls)} times in it`:""]})]}),c("div",{children:[c("dt",{children:"work"}),
c("dd",{children:[e.multiply_adds?`${C(e.multiply_adds)} multiply-adds`:"no products",e.moved_bytes?`; reads and writes ${P(e.moved_bytes)}`:""]})]}),e.gflops||
e.gbytes?c("div",{children:[c("dt",{children:"rate"}),c("dd",{children:[[e.gflops&&`${q(e.gflops)} GFLOP/s`,e.gbytes&&`${q(e.gbytes)} GB/s`].filter(Boolean).join(
", "),e.roof!==null?`; ${Re(e.roof)} of what ${e.bound==="memory"?"memory":"the multipliers"} can do here`:""]})]}):null,c("div",{children:[c("dt",{children:"we\
ights, code"}),c("dd",{children:[P(e.weights_bytes)||"?",", ",P(e.code_bytes)||"not known"]})]}),e.error!==null&&c("div",{children:[c("dt",{children:"error"}),c(
"dd",{children:[q(e.error)," of the largest"]})]}),c("div",{children:[c("dt",{children:"tasks"}),c("dd",{children:M(e.tasks)})]})]}),e.intensity&&e.roof!==null&&
a?.limits?c(vn,{rows:[e],limits:a.limits}):null,c("h3",{children:"Nodes of the model"}),c("ul",{class:"names",children:[e.sources.map((m,h)=>c("li",{children:M(
m)},h)),!e.sources.length&&c("li",{children:M(e.name)})]}),(e.inputs.length>0||e.outputs.length>0)&&c(D,{children:[c("h3",{children:"Tensors"}),c("ul",{class:"n\
ames",children:[e.inputs.map(m=>c("li",{children:["reads ",c("b",{children:M(r[m].name)})," ",M(It(r[m]))]},`i${m}`)),e.outputs.map(m=>c("li",{children:["writes\
 ",c("b",{children:M(r[m].name)})," ",M(It(r[m]))]},`o${m}`))]})]}),c("h3",{children:"Schedule"}),o.schedule===null?c("p",{class:"note",children:"A bundle does \
not hold the schedules of its kernels: a report on the model has them."}):o.schedule.length?c("ol",{class:"steps",children:o.schedule.map((m,h)=>c("li",{title:M(
m.step),children:M(m.words)},h))}):c("p",{class:"note",children:"The kernel is written as a loop program, or as it is."}),c("h3",{children:[M(o.name),s.length>1?
`, shared by ${s.length} nodes`:""]}),o.source?c("pre",{tabIndex:0,"aria-label":"C of the kernel",children:c("code",{children:o.source})}):c("p",{class:"note",children:"\
kernels.c is not in the bundle."})]})}function jo(t,e,n){let[r,i]=[t.clientWidth||600,t.clientHeight||400];if(n)return Ft.translate(r/2-n[0]*.8,i/2-n[1]*.8).scale(
.8);let a=na(t,e);if(a.k>=$r)return a;let o=Math.max(.5,Math.min(.9,r/(e.width+40))),[s]=e.nodes[0]??[0];return Ft.translate(r/2-s*o,30).scale(o)}function na(t,e){
let[n,r]=[t.clientWidth||600,t.clientHeight||400],i=Math.min(1,(n-40)/Math.max(1,e.width),(r-50)/Math.max(1,e.height));return Ft.translate((n-e.width*i)/2,25).scale(
i)}function nf({picture:t,links:e}){let n=e.filter(([,,,l])=>!l),r=l=>{let[u,...f]=l,m=`M${u[0]} ${u[1]}`,[h,d]=u;for(let[p,v]of f){let b=(d+v)/2;m+=h===p?`V${v}`:
`C${h} ${b} ${p} ${b} ${p} ${v}`,[h,d]=[p,v]}return m},i=t.edges.map(r),a=e.filter(([,,,l])=>l),o=a.map(([l,u])=>{let[[f,m,h],[d,p,v]]=[t.nodes[l],t.nodes[u]],b=Math.
max(f+h/2,d+v/2)+40;return`M${f+h/2} ${m}C${b} ${m} ${b} ${p} ${d+v/2} ${p}`}),s=l=>[[n,i],[a,o]].map(([u,f])=>u.map(([m,h],d)=>m===l||h===l?f[d]:"").join("")).
join("");return{forward:i.join(""),back:o.join(""),own:s}}var qt=document.body.dataset.measure??null;function ra(t){let[e]=t.subjects,n=qt&&!e.time?rf():null;if(!n||n.hash!==e.hash||n.nodes?.length!==e.nodes.length)return t;
let r=e.nodes.map(({multiply_adds:a,moved_bytes:o},s)=>{let l=e.control.some(({op:u,nodes:f})=>u==="loop"&&f[0]<=s&&s<f.at(-1))?0:n.nodes[s];return{gflops:l&&a?
2*a/l:null,gbytes:l&&o?o/l:null,roof:null,bound:null}}),i={unit:"ns",where:"browser",machine:n.kernels,threads:n.threads,runs:n.runs,median:n.mean,fastest:null,
nodes:n.nodes,calls:null,rates:r,limits:null,board:null,stack_bytes:null};return{...t,subjects:[{...e,time:i}]}}function rf(){try{return JSON.parse(sessionStorage.
getItem("sterna-measured"))}catch{return null}}var[wn,xn,kn,ia,Nr]=[900,340,70,30,10];function oa({subject:t,pick:e}){let{memory:n}=t;return c(D,{children:[t.flash.length>0&&c(sf,{rows:t.flash}),n?c(of,{subject:t,
memory:n,pick:e}):c("p",{class:"card",children:"This bundle was written by a version that did not note where tensors lie. Compile it again."})]})}var ke=t=>t.class===
"scratch",Sr=(t,e)=>ke(e)?`scratch of node ${e.first}`:e.tensors.map(n=>t.tensors[n].name).join(", ");function of({subject:t,memory:e,pick:n}){let{peak:r,pools:i,
blocks:a}=e,[o,s]=X(null),l=o===null?null:a[o];return c(D,{children:[c("p",{class:"lead",children:[P(e.arena_bytes)," of arena",e.live_bytes?`; ${P(e.live_bytes)}\
 are alive at one time, which no plan can undercut`:"",e.scratch_bytes?a.some(ke)?`; in it up to ${P(e.scratch_bytes)} of scratch for a node`:`; ${P(e.scratch_bytes)}\
 of scratch for each thread`:"","."]}),i.map((u,f)=>c("section",{class:"card",children:[c("h2",{children:i.length>1?`Memory ${M(u.name)}`:"The arena"}),c("div",
{class:"plotted",tabIndex:0,role:"region","aria-label":u.name,children:c(af,{subject:t,memory:e,pool:f,size:u.bytes,chosen:o,choose:s})}),c("p",{class:"note","a\
ria-live":"polite",children:[l&&l.pool===f?c(D,{children:[ke(l)?"Scratch":l.tensors.map(m=>M(`${t.tensors[m].name} ${It(t.tensors[m])}`)).join(", then "),": ",C(
l.bytes)," bytes at ",C(l.offset),", ",l.first===l.last?`node ${l.first}`:`nodes ${l.first} to ${l.last}`,". ",c("button",{type:"button",class:"link",onClick:()=>n(
l.first),children:["Show node ",l.first]})]}):"From left to right: the nodes, in their order. Upwards: the bytes. A block is a tensor from the node that makes i\
t to the last that reads it; click one for its name.",a.some(m=>ke(m)&&m.pool===f)?" Grey is scratch, which a node works in.":"",t.control.some(m=>m.op==="loop")?
" A dashed frame is a loop: what it reads from before it lasts to its end.":""]})]},f)),r&&c("section",{class:"card",children:[c("h2",{children:"What decides th\
e peak"}),c("p",{children:["At node ",r.node,", ",c("button",{type:"button",class:"link",onClick:()=>n(r.node),children:z(W(t.rows[r.node]),60)}),", ",P(r.bytes),
" are needed at once:"]}),c(K,{caption:"Alive at the peak",rows:r.blocks.map(u=>({...a[u],key:u})),first:{column:1,down:!0},columns:[{name:"tensor",value:u=>Sr(
t,u),show:u=>z(Sr(t,u),60)},{name:"bytes",value:u=>u.bytes,show:u=>C(u.bytes),number:!0},{name:"from node",value:u=>u.first,number:!0},{name:"to node",value:u=>u.
last,number:!0}]})]}),c("section",{class:"card",children:[c("h2",{children:"What else would give"}),e.choices.length?c("div",{class:"scroll",tabIndex:0,role:"re\
gion","aria-label":"What else would give",children:c("table",{children:[c("thead",{children:c("tr",{children:[c("th",{scope:"col",children:"choice"}),c("th",{scope:"\
col",class:"number",children:"bytes"}),c("th",{scope:"col",class:"number",children:"change"}),c("th",{scope:"col",class:"number",children:"multiply-adds"})]})}),
c("tbody",{children:e.choices.map((u,f)=>c("tr",{children:[c("td",{class:"text",children:M(u.text)}),c("td",{class:"number",children:C(u.bytes)}),c("td",{class:"\
number",children:Vt(u.bytes/Math.max(1,e.arena_bytes)-1)}),c("td",{class:"number",children:u.multiply_adds?Vt(u.multiply_adds/Math.max(1,t.totals.multiply_adds)-
1):""})]},f))})]})}):c("p",{class:"note",children:[t.control.length?"Loops and choices decide the order of the nodes":"No other order of the nodes was found tha\
t needs less",t.kind!=="firmware"?"":t.model?", and no first layers to compute in patches":"; a report on the model says what --max-ram would give","."]})]})]})}
function af({subject:t,memory:e,pool:n,size:r,chosen:i,choose:a}){let o=t.rows.length,s=pn([0,Math.max(1,o)],[kn,wn-10]),l=pn([0,Math.max(1,r)],[xn-ia,Nr]),u=e.
blocks.map((d,p)=>[d,p]).filter(([d])=>d.pool===n),f=e.pools.length===1,m=e.alive.map((d,p)=>`${p?"L":"M"}${s(p)} ${l(d)}H${s(p+1)}`).join(""),h=Math.max(1,Math.
round(o/10));return c("svg",{class:"plot",viewBox:`0 0 ${wn} ${xn}`,role:"group","aria-label":"Tensors by address and lifetime",children:[l.ticks(6).map(d=>c("g",
{class:"tick",children:[c("path",{d:`M${kn} ${l(d)}H${wn-10}`}),c("text",{x:kn-6,y:l(d)+4,"text-anchor":"end",children:P(d)})]},d)),t.rows.filter((d,p)=>p%h===0).
map(d=>c("text",{class:"axis",x:s(d.index),y:xn-12,children:d.index},d.index)),t.control.filter(d=>d.op==="loop").map((d,p)=>c("g",{class:"region",children:[c("\
rect",{x:s(d.nodes[0]),y:Nr,width:s(d.nodes.at(-1))-s(d.nodes[0]),height:xn-ia-Nr}),c("title",{children:`loop ${z(d.name,60)}: what it reads from before lasts t\
o its end`})]},p)),u.map(([d,p])=>c("rect",{class:`block ${ke(d)?"scratch":`tone${p%6}`}${i===p?" picked":""}`,x:s(d.first),width:Math.max(1,s(d.last+1)-s(d.first)-
.5),y:l(d.offset+d.bytes),height:Math.max(1,l(d.offset)-l(d.offset+d.bytes)-.5),onClick:()=>a(p),children:c("title",{children:[z(Sr(t,d),80),": ",P(d.bytes)]})},
p)),f&&c("path",{class:"alive",d:m}),f&&e.live_bytes?c("g",{class:"bound",children:c("path",{d:`M${kn} ${l(e.live_bytes)}H${wn-10}`})}):null]})}function sf({rows:t}){
let e=t.reduce((r,i)=>r+i.bytes,0)||1,n=0;return c("section",{class:"card",children:[c("h2",{children:["Flash: ",P(e)]}),c("svg",{class:"strip",viewBox:"0 0 100\
0 40",preserveAspectRatio:"none",role:"group","aria-label":"Flash by section",children:t.map((r,i)=>{let[a,o]=[1e3*n/e,1e3*r.bytes/e];return n+=r.bytes,c("rect",
{class:`block tone${i%6}`,x:a,width:o,height:"40",children:c("title",{children:[M(`${r.section} ${r.what}`),": ",P(r.bytes)]})},i)})}),c(K,{caption:"Flash by se\
ction",rows:t.map((r,i)=>({...r,key:i})),first:{column:2,down:!0},columns:[{name:"section",value:r=>r.section},{name:"what",value:r=>r.what,show:r=>M(r.what)},{
name:"bytes",value:r=>r.bytes,show:r=>C(r.bytes),number:!0}]})]})}var uf=["int8","uint8"];function lf(t,e){return t.filter(({nodes:n})=>n[0]<=e&&e<n.at(-1)).map(n=>{let r=n.op==="if"?n.nodes.findLastIndex(i=>i<=e):null;return{
...n,branch:r===null?null:["then","else"][r]??`branch ${r+1}`}}).sort((n,r)=>r.nodes.at(-1)-r.nodes[0]-(n.nodes.at(-1)-n.nodes[0]))}function aa(t){let{nodes:e,kernels:n,
time:r,numbers:i,control:a,tensors:o}=t,s=r?r.nodes.reduce((f,m)=>f+m,0)||1:null,l=new Map((i?.layers??[]).filter(f=>f.node!==null).map(f=>[f.node,f])),u=e.map(
(f,m)=>{let h=r?r.nodes[m]:null,d=f.multiply_adds&&f.moved_bytes?2*f.multiply_adds/f.moved_bytes:null,p=r?r.rates[m]:{gflops:null,gbytes:null,roof:null,bound:null};
return{...f,...p,index:m,intensity:d,kernelName:n[f.kernel].name,took:h,narrow:f.inputs.some(v=>uf.includes(o[v].dtype)),calls:r?.calls?.[m]??null,within:lf(a,m),
share:h===null?null:h/s,error:l.get(m)?.error??null}});return{...t,rows:u,total:s}}var sa=(t,e)=>[...t].filter(n=>n.took).sort((n,r)=>r.took-n.took).slice(0,e);var Mn=(t,e,n)=>({name:t,value:e,show:r=>(n??q)(e(r)),number:!0});function la({subject:t,pick:e}){let{numbers:n}=t;return n?c(D,{children:[c("p",{class:"lead",children:[
C(n.samples)," ",n.samples===1?"sample":"samples","; layers beside ",M(n.reference),n.trade?`; ${M(n.trade)}`:"","."]}),c("section",{class:"card",children:[c("h\
2",{children:"Outputs"}),c(K,{caption:"Outputs",rows:n.outputs.map((r,i)=>({...r,key:i})),first:{column:1,down:!0},columns:[{name:"output",value:r=>r.name,show:r=>z(
r.name)},...ua,{name:"beside",value:r=>r.reference,show:r=>M(r.reference)}]})]}),c("section",{class:"card",children:[c("h2",{children:"Layers, the worst first"}),
n.layers.length?c(K,{caption:"Error of every layer",rows:n.layers.map((r,i)=>({...r,key:i})),first:{column:1,down:!0},onPick:r=>r.node!==null&&e(r.node),columns:[
{name:"tensor",value:r=>r.name,show:r=>c("span",{title:M(r.name),children:z(r.name)}),pick:!0},...ua,{name:"node",value:r=>r.node,number:!0},{name:"nodes of the\
 model",value:r=>r.sources.join(", "),show:r=>z(r.sources.join(", "))}]}):c("p",{class:"note",children:"No tensor between kernels is in both."})]}),n.ranges.length>
0&&c("section",{class:"card",children:[c("h2",{children:"Ranges of quantized tensors"}),c("p",{class:"note",children:"How often each part of the range was met; \
the ends are where values are clipped."}),c("div",{class:"ranges",children:n.ranges.map((r,i)=>c(cf,{row:r},i))})]})]}):c("p",{class:"card",children:["No number\
s were compared. ",c("code",{children:"sterna report MODEL --data samples.npz"})," compares every layer with the reference on these samples."]})}var ua=[Mn("lar\
gest error",t=>t.error),Mn("mean error",t=>t.mean),Mn("cosine",t=>t.cosine,t=>t===null?"":t.toFixed(6)),Mn("largest value",t=>t.largest)];function cf({row:t}){let e=Math.
max(...t.counts,1);return c("figure",{class:"range",children:[c("figcaption",{title:M(t.name),children:[z(t.name,30)," ",c("small",{children:[t.dtype,"; ",C(t.least),
" to ",C(t.greatest),"; ",ct(t.clipped,2)," at the ends",t.scale?`; scale ${q(t.scale)}`:""]})]}),c("svg",{viewBox:`0 0 ${t.counts.length*10} 60`,preserveAspectRatio:"\
none",role:"img","aria-label":`Histogram of ${z(t.name,60)}`,children:t.counts.map((n,r)=>c("rect",{class:r===0||r===t.counts.length-1?"end":"",x:10*r,width:"9",
y:60-58*n/e,height:58*n/e},r))})]})}function ca({subject:t,go:e,pick:n}){let{time:r,totals:i,memory:a}=t;return c(D,{children:[c("dl",{class:"facts",children:[c(Bt,{name:"target",value:M(t.target.
name??""),note:M(t.target.triple??"")}),c(Bt,{name:"size",value:P(t.bytes),note:`${t.files.length} files; weights ${P(t.weights_bytes)}${t.code_bytes?`, code ${P(
t.code_bytes)}`:""}`}),a&&c(Bt,{name:"arena",value:P(a.arena_bytes),note:a.live_bytes?`live-set lower bound ${P(a.live_bytes)}`:""}),i&&c(Bt,{name:"multiply-add\
s",value:C(i.multiply_adds),note:hf(i.sizes)}),c(Bt,{name:"nodes",value:C(t.nodes.length),note:`${C(t.kernels.length)} kernels`}),r?c(Bt,{name:r.unit==="ns"?"ti\
me of a run":"instructions of a run",value:yt(r,r.median),note:Ar(r)}):c(Bt,{name:"time",value:"not measured",note:qt?c("a",{href:qt,children:"measure it in thi\
s browser"}):"--time measures it"})]}),r&&c("section",{class:"card",children:[c("h2",{children:"Where the time goes"}),c("ol",{class:"hot",children:sa(t.rows,5).
map(o=>c("li",{children:[c("button",{type:"button",class:"link",onClick:()=>n(o.index),title:M(W(o)),children:z(W(o),40)}),c("span",{class:"bar","aria-hidden":"\
true",children:c("i",{style:{width:`${100*o.share}%`}})}),c("span",{class:"number",children:ct(o.share)}),c("span",{class:"number",children:yt(r,o.took)})]},o.index))}),
c("p",{class:"note",children:["A name opens the node in the graph. ",c("button",{type:"button",class:"link",onClick:()=>e("time"),children:"All nodes by time"})]})]}),
c("section",{class:"card",children:[c("h2",{children:"Signature"}),c("div",{class:"scroll",tabIndex:0,role:"region","aria-label":"Signature",children:c("table",
{children:[c("thead",{children:c("tr",{children:[c("th",{scope:"col",children:"side"}),c("th",{scope:"col",children:"name"}),c("th",{scope:"col",children:"type"}),
c("th",{scope:"col",children:"meaning"})]})}),c("tbody",{children:["inputs","outputs"].flatMap(o=>t.signature[o].map((s,l)=>c("tr",{children:[c("td",{children:o.
slice(0,-1)}),c("td",{class:"text",children:c("b",{title:M(s.name),children:z(s.name)})}),c("td",{class:"text",children:z(It(s),80)}),c("td",{class:"text",children:[
M(s.note),s.labels.length?c(ff,{labels:s.labels}):""]})]},`${o}${l}`)))})]})})]}),c("section",{class:"card",children:[c("h2",{children:"Files"}),c(K,{caption:"F\
iles",rows:t.files.map(o=>({...o,key:o.name})),first:{column:1,down:!0},columns:[{name:"file",value:o=>o.name,show:o=>M(o.name)},{name:"bytes",value:o=>o.bytes,
show:o=>C(o.bytes),number:!0},{name:"what",value:o=>o.role},{name:"hash",value:o=>o.hash,show:o=>c("code",{children:o.hash??""})}]})]}),c("section",{class:"card",
children:[c("h2",{children:"Layers by size"}),c(K,{caption:"Bytes of every node",rows:t.rows,first:{column:3,down:!0},onPick:o=>n(o.index),columns:[{name:"#",value:o=>o.
index,number:!0},{name:"nodes of the model",value:W,show:o=>c("span",{title:M(W(o)),children:z(W(o))}),pick:!0},{name:"kernel",value:o=>o.kernelName,show:o=>c(Pe,
{name:o.kernelName})},{name:"weights",value:o=>o.weights_bytes,show:o=>C(o.weights_bytes),number:!0},{name:"code",value:o=>o.code_bytes,show:o=>C(o.code_bytes),
number:!0},{name:"multiply-adds",value:o=>o.multiply_adds,show:o=>C(o.multiply_adds),number:!0}]})]}),c("section",{class:"card",children:[c("h2",{children:"How \
it was made"}),c("dl",{class:"plain",children:df(t).map(([o,s])=>c("div",{children:[c("dt",{children:o}),c("dd",{children:c("code",{children:M(s)})})]},o))})]})]})}
function Bt({name:t,value:e,note:n}){return c("div",{children:[c("dt",{children:t}),c("dd",{children:[e,n?c("small",{children:n}):null]})]})}function ff({labels:t}){
return c("details",{children:[c("summary",{children:"labels"}),c("p",{class:"labels",children:t.slice(0,1e3).map(M).join(", ")})]})}var hf=t=>Object.entries(t??
{}).map(([e,n])=>`${z(e,20)} = ${C(n)}`).join(", ");function Ar(t){if(t.unit!=="ns")return`counted on ${M(t.board??t.where)}, emulated${t.stack_bytes?`; stack ${C(
t.stack_bytes)} B`:""}`;let e=t.threads===1?"1 thread":`${t.threads} threads`;return t.where==="browser"?`mean of ${t.runs} runs in this browser; ${e}; kernels ${M(
t.machine)}`:`median of ${t.runs} runs, fastest ${St(t.fastest)}; ${e}${t.where==="here"?"":` on ${M(t.where)}`}${t.machine?`; ${M(t.machine)}`:""}`}function df(t){
let{options:e,source:n}=t;return[["command",t.command],["model",t.model],["bundle",t.directory],["compiler",t.producer],["toolchain",e.toolchain],["generator",e.
generator],["needs of the processor",t.target.cpu_features.join(", ")],["hash of graph.json",t.hash],["SHA-256 of the model",n?.sha256],["format of the model",n?.
format],["traded for speed",t.math&&`bound ${t.math.bound}, largest error ${t.math.error}`],["tuned kernels",t.tuning&&`${t.tuning.kernels}, snapshot ${t.tuning.
snapshot}`],["budgets",t.fitted]].filter(([,i])=>i)}function fa({subject:t,pick:e}){let{time:n,rows:r}=t,i=at(()=>n?mf(n,r):[],[n]),[a,o]=X(!1);if(!n)return qt?c("p",{class:"card",children:["No time was measured \
yet. ",c("a",{href:qt,children:"Measure it in this browser"}),", then come back to the report."]}):c("p",{class:"card",children:["No time was measured. ",c("cod\
e",{children:"sterna report BUNDLE --time"})," measures it here, with ",c("code",{children:"--on DEVICE"})," elsewhere; for a browser, ",c("code",{children:"ste\
rna serve BUNDLE"})," does in its tab Measure."]});let s=n.unit==="ns";return c(D,{children:[c("p",{class:"lead",children:[yt(n,n.median)," for a run: ",Ar(n),"\
.",s&&t.total>1.15*n.median?` The nodes add up to ${yt(n,t.total)}: reading the clock around each of them takes time too.`:""]}),c("section",{class:"card",children:[
c("h2",{children:"In the order of the run"}),c(pf,{rows:r,time:n,pick:e})]}),c("section",{class:"card",children:[c("h2",{children:"Nodes"}),c("div",{class:"tool\
s",role:"group","aria-label":"Order",children:[c("button",{type:"button","aria-pressed":!a,onClick:()=>o(!1),children:"By share"}),c("button",{type:"button","ar\
ia-pressed":a,onClick:()=>o(!0),children:"In order"})]}),c(K,{caption:s?"Time of every node":"Instructions of every node",rows:r,columns:i,first:a?{column:0,down:!1}:
{column:3,down:!0},onPick:l=>e(l.index),words:"a heading sorts; a name opens the graph"},String(a)),s&&n.limits&&r.some(l=>l.device)&&c("p",{class:"note",children:"\
Limits are measured on the CPU: what a device can do at most is not known."}),s&&!n.limits&&n.where!=="browser"&&c("p",{class:"note",children:"What that machine\
 can do at most is not known: limits are measured on this machine only."})]}),s&&n.limits&&r.some(l=>l.roof!==null)&&c("section",{class:"card",children:[c("h2",
{children:"Roofline"}),c(vn,{rows:r.filter(l=>l.roof!==null),limits:n.limits,pick:e})]})]})}function mf(t,e){let n=t.unit==="ns",r=n?t.median<1e5?{name:"\xB5s",
size:1e3,digits:2}:{name:"ms",size:1e6,digits:4}:{name:"instructions",size:1},i=[{name:"GFLOP/s",value:o=>o.gflops,show:o=>q(o.gflops),number:!0},{name:"GB/s",value:o=>o.
gbytes,show:o=>q(o.gbytes),number:!0}],a=[{name:"% of roofline",value:o=>o.roof===null?null:100*o.roof,show:o=>Re(o.roof),number:!0},{name:"bound by",value:o=>o.
bound??""}];return[{name:"#",value:o=>o.index,number:!0},{name:"nodes of the model",value:W,show:o=>c("span",{title:M(W(o)),children:z(W(o),44)}),pick:!0},{name:"\
kernel",value:o=>o.kernelName,show:o=>c(Pe,{name:o.kernelName})},{name:r.name,value:o=>o.took/r.size,show:o=>n?(o.took/r.size).toFixed(r.digits):C(o.took),number:!0},
{name:"share",value:o=>o.share,show:o=>c(D,{children:[c("span",{class:"bar","aria-hidden":"true",children:c("i",{style:{width:`${100*o.share}%`}})}),ct(o.share)]}),
number:!0},...e.some(o=>o.calls!==null&&o.calls!==1)?[{name:"calls",value:o=>o.calls,show:o=>C(o.calls),number:!0}]:[],...n?i:[],...n&&t.limits?a:[],{name:"mult\
iply-adds",value:o=>o.multiply_adds,show:o=>C(o.multiply_adds),number:!0},{name:"moved",value:o=>o.moved_bytes,show:o=>P(o.moved_bytes),number:!0}]}function pf({
rows:t,time:e,pick:n}){let r=t.reduce((o,s)=>o+s.took,0)||1,i=0,a=Math.max(...t.map(o=>o.took));return c("svg",{class:"strip",viewBox:"0 0 1000 40",preserveAspectRatio:"\
none",role:"group","aria-label":"The run from left to right; every node is as wide as it is long",children:t.map(o=>{let[s,l]=[1e3*i/r,1e3*o.took/r];return i+=o.
took,l<.05?null:c("rect",{x:s,width:l,height:"40",style:{"--heat":`${Math.round(100*o.took/a)}%`},onClick:()=>n(o.index),children:c("title",{children:`${z(W(o),
60)}: ${yt(e,o.took)}`})},o.index)})})}var ne=ra(JSON.parse(document.getElementById("data").textContent)),$t=ne.subjects.map(aa),Et=[{id:"compare",name:"Compare",show:bi,ofAll:!0,when:()=>ne.comparison},
{id:"summary",name:"Summary",show:ca},{id:"graph",name:"Graph",show:ta},{id:"time",name:"Time",show:fa},{id:"memory",name:"Memory",show:oa},{id:"numbers",name:"\
Numbers",show:la},{id:"boards",name:"Boards",show:_i,ofAll:!0,when:()=>ne.boards.length||ne.targets.length}].filter(t=>!t.when||t.when()),ha=()=>Et.find(t=>`#${t.
id}`===location.hash)??Et[0];function gf(){let[t,e]=X(ha),[n,r]=X(0),[i,a]=X(null),[o,s]=X(!1);Pn(()=>{let d=()=>pi(()=>s(!0)),p=()=>s(!1);return addEventListener(
"beforeprint",d),addEventListener("afterprint",p),()=>(removeEventListener("beforeprint",d),removeEventListener("afterprint",p))},[]),Ut(()=>{let d=()=>e(ha());
return addEventListener("hashchange",d),()=>removeEventListener("hashchange",d)},[]);let l=d=>{e(Et.find(p=>p.id===d));try{history.replaceState(null,"",`#${d}`)}catch{}},
u=(d,p=n)=>{r(p),a(d),l("graph")},f=({key:d},p)=>{let v={ArrowRight:1,ArrowLeft:-1}[d];if(!v)return;let b=Et[(p+v+Et.length)%Et.length];l(b.id),document.getElementById(
`tab-${b.id}`).focus()},m=$t[n],h=o?Et.filter(d=>d.id!=="graph"||d===t).flatMap(d=>d.ofAll||d.id==="graph"?[[d,n]]:$t.map((p,v)=>[d,v])):[[t,n]];return c(D,{children:[
c("header",{children:[c("h1",{title:M(m.name),children:z(m.name,40)}),c("nav",{role:"tablist","aria-label":"Parts of the report",children:Et.map((d,p)=>c("butto\
n",{type:"button",role:"tab",id:`tab-${d.id}`,"aria-controls":"panel","aria-selected":d===t,tabIndex:d===t?0:-1,onClick:()=>l(d.id),onKeyDown:v=>f(v,p),children:d.
name},d.id))}),$t.length>1&&t.id!=="compare"&&c("label",{class:"which",children:["of ",c("select",{value:n,onChange:d=>(r(Number(d.currentTarget.value)),a(null)),
children:$t.map((d,p)=>c("option",{value:p,children:z(Er(d,p),40)},p))})]})]}),c("main",{role:"tabpanel",id:"panel","aria-labelledby":`tab-${t.id}`,children:h.map(
([d,p])=>{let v=d.show,b=$t.length>1&&!d.ofAll?`${d.name}, ${Er($t[p],p)}`:d.name;return c("section",{children:[o&&c("h2",{class:"part",children:b}),c(v,{report:ne,
subjects:$t,subject:$t[p],go:l,pick:u,picked:i,setPicked:a,label:Er})]},`${d.id} ${p}`)})},`${t.id} ${n}`),c("footer",{children:["made by ",M(ne.producer)]})]})}
function Er(t,e){return`${"AB"[e]}: ${t.directory??t.model??t.name} (${t.target.name})`}document.title=`${M($t.map(t=>t.name).join(" and "))}: report`;On(c(gf,{}),
document.getElementById("app"));})();
