(()=>{var Ae,S,Nr,na,Nt,wr,$r,Sr,bn,ke,ee,Ar,kn,wn,xn,ra,Ne={},$e=[],ia=/acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i,ne=Array.isArray;function gt(t,e){
for(var n in e)t[n]=e[n];return t}function Mn(t){t&&t.parentNode&&t.parentNode.removeChild(t)}function re(t,e,n){var r,i,o,a={};for(o in e)o=="key"?r=e[o]:o=="r\
ef"?i=e[o]:a[o]=e[o];if(arguments.length>2&&(a.children=arguments.length>3?Ae.call(arguments,2):n),typeof t=="function"&&t.defaultProps!=null)for(o in t.defaultProps)
a[o]===void 0&&(a[o]=t.defaultProps[o]);return Me(t,a,r,i,null)}function Me(t,e,n,r,i){var o={type:t,props:e,key:n,ref:r,__k:null,__:null,__b:0,__e:null,__c:null,
constructor:void 0,__v:i??++Nr,__i:-1,__u:0};return i==null&&S.vnode!=null&&S.vnode(o),o}function D(t){return t.children}function ot(t,e){this.props=t,this.context=e}function Et(t,e){if(e==null)return t.__?Et(t.__,t.__i+1):null;for(var n;e<t.__k.length;e++)
if((n=t.__k[e])!=null&&n.__e!=null)return n.__e;return typeof t.type=="function"?Et(t):null}function oa(t){if(t.__P&&t.__d){var e=t.__v,n=e.__e,r=[],i=[],o=gt({},
e);o.__v=e.__v+1,S.vnode&&S.vnode(o),Nn(t.__P,o,e,t.__n,t.__P.namespaceURI,32&e.__u?[n]:null,r,n??Et(e),!!(32&e.__u),i),o.__v=e.__v,o.__.__k[o.__i]=o,Or(r,o,i),
e.__e=e.__=null,o.__e!=n&&Er(o)}}function Er(t){if((t=t.__)!=null&&t.__c!=null)return t.__e=t.__c.base=null,t.__k.some(function(e){if(e!=null&&e.__e!=null)return t.
__e=t.__c.base=e.__e}),Er(t)}function xr(t){(!t.__d&&(t.__d=!0)&&Nt.push(t)&&!Se.__r++||wr!=S.debounceRendering)&&((wr=S.debounceRendering)||$r)(Se)}function Se(){
try{for(var t,e=1;Nt.length;)Nt.length>e&&Nt.sort(Sr),t=Nt.shift(),e=Nt.length,oa(t)}finally{Nt.length=Se.__r=0}}function Cr(t,e,n,r,i,o,a,s,l,u,h){var m,f,d,_,
v,b,g=r&&r.__k||$e,M=e.length;for(l=aa(n,e,g,l,M),m=0;m<M;m++)(d=n.__k[m])!=null&&(f=d.__i!=-1&&g[d.__i]||Ne,d.__i=m,b=Nn(t,d,f,i,o,a,s,l,u,h),_=d.__e,d.ref&&f.
ref!=d.ref&&(f.ref&&$n(f.ref,null,d),h.push(d.ref,d.__c||_,d)),v==null&&_!=null&&(v=_),4&d.__u?(l=Ir(d,l,t),f.__e&&(f.__e=null)):typeof d.type=="function"&&b!==
void 0?l=b:_&&(l=_.nextSibling),d.__u&=-7);return n.__e=v,l}function aa(t,e,n,r,i){var o,a,s,l,u,h=n.length,m=h,f=0;for(t.__k=new Array(i),o=0;o<i;o++)(a=e[o])!=
null&&typeof a!="boolean"&&typeof a!="function"?(typeof a=="string"||typeof a=="number"||typeof a=="bigint"||a.constructor==String?a=t.__k[o]=Me(null,a,null,null,
null):ne(a)?a=t.__k[o]=Me(D,{children:a},null,null,null):a.constructor===void 0&&a.__b>0?a=t.__k[o]=Me(a.type,a.props,a.key,a.ref?a.ref:null,a.__v):t.__k[o]=a,l=
o+f,a.__=t,a.__b=t.__b+1,s=null,(u=a.__i=sa(a,n,l,m))!=-1&&(m--,(s=n[u])&&(s.__u|=2)),s==null||s.__v==null?(u==-1&&(i>h?f--:i<h&&f++),typeof a.type!="function"&&
(a.__u|=4)):u!=l&&(u==l-1?f--:u==l+1?f++:(u>l?f--:f++,a.__u|=4))):t.__k[o]=null;if(m)for(o=0;o<h;o++)(s=n[o])!=null&&(2&s.__u)==0&&(s.__e==r&&(r=Et(s)),Rr(s,s));
return r}function Ir(t,e,n){var r,i;if(typeof t.type=="function"){for(r=t.__k,i=0;r&&i<r.length;i++)r[i]&&(r[i].__=t,e=Ir(r[i],e,n));return e}t.__e!=e&&(e&&t.type&&
!e.parentNode&&(e=Et(t)),e=n.insertBefore(t.__e,e||null));do e=e&&e.nextSibling;while(e!=null&&e.nodeType==8);return e}function ie(t,e){return e=e||[],t==null||
typeof t=="boolean"||(ne(t)?t.some(function(n){ie(n,e)}):e.push(t)),e}function sa(t,e,n,r){var i,o,a,s=t.key,l=t.type,u=e[n],h=u!=null&&(2&u.__u)==0;if(u===null&&
s==null||h&&s==u.key&&l==u.type)return n;if(r>(h?1:0)){for(i=n-1,o=n+1;i>=0||o<e.length;)if((u=e[a=i>=0?i--:o++])!=null&&(2&u.__u)==0&&s==u.key&&l==u.type)return a}
return-1}function kr(t,e,n){e[0]=="-"?t.setProperty(e,n??""):t[e]=n==null?"":typeof n!="number"||ia.test(e)?n:n+"px"}function xe(t,e,n,r,i){var o,a;t:if(e=="sty\
le")if(typeof n=="string")t.style.cssText=n;else{if(typeof r=="string"&&(t.style.cssText=r=""),r)for(e in r)n&&e in n||kr(t.style,e,"");if(n)for(e in n)r&&n[e]==
r[e]||kr(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")o=e!=(e=e.replace(Ar,"$1")),a=e.toLowerCase(),e=a in t||e=="onFocusOut"||e=="onFocusIn"?a.slice(2):e.slice(
2),t.l||(t.l={}),t.l[e+o]=n,n?r?n[ee]=r[ee]:(n[ee]=kn,t.addEventListener(e,o?xn:wn,o)):t.removeEventListener(e,o?xn:wn,o);else{if(i=="http://www.w3.org/2000/svg")
e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&
e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{t[e]=n??"";break t}catch{}typeof n=="function"||(n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(
e,e=="popover"&&n==1?"":n))}}function Mr(t){return function(e){if(this.l){var n=this.l[e.type+t];if(e[ke]==null)e[ke]=kn++;else if(e[ke]<n[ee])return;return n(S.
event?S.event(e):e)}}}function Nn(t,e,n,r,i,o,a,s,l,u){var h,m,f,d,_,v,b,g,M,w,$,R,I,L,Q,J,H=e.type;if(e.constructor!==void 0)return null;128&n.__u&&(l=!!(32&n.
__u),o=[s=e.__e=n.__e]),(h=S.__b)&&h(e);t:if(typeof H=="function"){m=a.length;try{if(M=e.props,w=H.prototype&&H.prototype.render,$=(h=H.contextType)&&r[h.__c],R=
h?$?$.props.value:h.__:r,n.__c?g=(f=e.__c=n.__c).__=f.__E:(w?e.__c=f=new H(M,R):(e.__c=f=new ot(M,R),f.constructor=H,f.render=la),$&&$.sub(f),f.state||(f.state=
{}),f.__n=r,d=f.__d=!0,f.__h=[],f._sb=[]),w&&f.__s==null&&(f.__s=f.state),w&&H.getDerivedStateFromProps!=null&&(f.__s==f.state&&(f.__s=gt({},f.__s)),gt(f.__s,H.
getDerivedStateFromProps(M,f.__s))),_=f.props,v=f.state,f.__v=e,d)w&&H.getDerivedStateFromProps==null&&f.componentWillMount!=null&&f.componentWillMount(),w&&f.componentDidMount!=
null&&f.__h.push(f.componentDidMount);else{if(w&&H.getDerivedStateFromProps==null&&M!==_&&f.componentWillReceiveProps!=null&&f.componentWillReceiveProps(M,R),e.
__v==n.__v||!f.__e&&f.shouldComponentUpdate!=null&&f.shouldComponentUpdate(M,f.__s,R)===!1){e.__v!=n.__v&&(f.props=M,f.state=f.__s,f.__d=!1),e.__e=n.__e,e.__k=n.
__k,e.__k.some(function(j){j&&(j.__=e)}),$e.push.apply(f.__h,f._sb),f._sb=[],f.__h.length&&a.push(f),s=Et(n);break t}f.componentWillUpdate!=null&&f.componentWillUpdate(
M,f.__s,R),w&&f.componentDidUpdate!=null&&f.__h.push(function(){f.componentDidUpdate(_,v,b)})}if(f.context=R,f.props=M,f.__P=t,f.__e=!1,I=S.__r,L=0,w)f.state=f.
__s,f.__d=!1,I&&I(e),h=f.render(f.props,f.state,f.context),$e.push.apply(f.__h,f._sb),f._sb=[];else do f.__d=!1,I&&I(e),h=f.render(f.props,f.state,f.context),f.
state=f.__s;while(f.__d&&++L<25);f.state=f.__s,f.getChildContext!=null&&(r=gt(gt({},r),f.getChildContext())),w&&!d&&f.getSnapshotBeforeUpdate!=null&&(b=f.getSnapshotBeforeUpdate(
_,v)),Q=h!=null&&h.type===D&&h.key==null?zr(h.props.children):h,s=Cr(t,ne(Q)?Q:[Q],e,n,r,i,o,a,s,l,u),f.base=e.__e,e.__u&=-161,f.__h.length&&a.push(f),g&&(f.__E=
f.__=null)}catch(j){if(a.length=m,e.__v=null,l||o!=null){if(j.then){for(e.__u|=l?160:128;s&&s.nodeType==8&&s.nextSibling;)s=s.nextSibling;o!=null&&(o[o.indexOf(
s)]=null),e.__e=s}else if(o!=null)for(J=o.length;J--;)Mn(o[J])}else e.__e=n.__e;e.__k==null&&(e.__k=n.__k||[]),j.then||Tr(e),S.__e(j,e,n)}}else o==null&&e.__v==
n.__v?(e.__k=n.__k,e.__e=n.__e):s=e.__e=ua(n.__e,e,n,r,i,o,a,l,u);return(h=S.diffed)&&h(e),128&e.__u?void 0:s}function Tr(t){t&&(t.__c&&(t.__c.__e=!0),t.__k&&t.
__k.some(Tr))}function Or(t,e,n){for(var r=0;r<n.length;r++)$n(n[r],n[++r],n[++r]);S.__c&&S.__c(e,t),t.some(function(i){try{t=i.__h,i.__h=[],t.some(function(o){
o.call(i)})}catch(o){S.__e(o,i.__v)}})}function zr(t){return typeof t!="object"||t==null||t.__b>0?t:ne(t)?t.map(zr):t.constructor!==void 0?null:gt({},t)}function ua(t,e,n,r,i,o,a,s,l){
var u,h,m,f,d,_,v,b=n.props||Ne,g=e.props,M=e.type;if(M=="svg"?i="http://www.w3.org/2000/svg":M=="math"?i="http://www.w3.org/1998/Math/MathML":i||(i="http://www\
.w3.org/1999/xhtml"),o!=null){for(u=0;u<o.length;u++)if((d=o[u])&&"setAttribute"in d==!!M&&(M?d.localName==M:d.nodeType==3)){t=d,o[u]=null;break}}if(t==null){if(M==
null)return document.createTextNode(g);t=document.createElementNS(i,M,g.is&&g),s&&(S.__m&&S.__m(e,o),s=!1),o=null}if(M==null)b===g||s&&t.data==g||(t.data=g);else{
if(o=M=="textarea"&&g.defaultValue!=null?null:o&&Ae.call(t.childNodes),!s&&o!=null)for(b={},u=0;u<t.attributes.length;u++)b[(d=t.attributes[u]).name]=d.value;for(u in b)
d=b[u],u=="dangerouslySetInnerHTML"?m=d:u=="children"||u in g||u=="value"&&"defaultValue"in g||u=="checked"&&"defaultChecked"in g||xe(t,u,null,d,i);for(u in g)d=
g[u],u=="children"?f=d:u=="dangerouslySetInnerHTML"?h=d:u=="value"?_=d:u=="checked"?v=d:s&&typeof d!="function"||b[u]===d||xe(t,u,d,b[u],i);if(h)s||m&&(h.__html==
m.__html||h.__html==t.innerHTML)||(t.innerHTML=h.__html),e.__k=[];else if(m&&(t.innerHTML=""),Cr(e.type=="template"?t.content:t,ne(f)?f:[f],e,n,r,M=="foreignObj\
ect"?"http://www.w3.org/1999/xhtml":i,o,a,o?o[0]:n.__k&&Et(n,0),s,l),o!=null)for(u=o.length;u--;)Mn(o[u]);s&&M!="textarea"||(u="value",M=="progress"&&_==null?t.
removeAttribute("value"):_!=null&&(_!==t[u]||M=="progress"&&!_||M=="option"&&_!=b[u])&&xe(t,u,_,b[u],i),u="checked",v!=null&&v!=t[u]&&xe(t,u,v,b[u],i))}return t}
function $n(t,e,n){try{if(typeof t=="function"){var r=typeof t.__u=="function";r&&t.__u(),r&&e==null||(t.__u=t(e))}else t.current=e}catch(i){S.__e(i,n)}}function Rr(t,e,n){
var r,i;if(S.unmount&&S.unmount(t),(r=t.ref)&&(r.current&&r.current!=t.__e||$n(r,null,e)),(r=t.__c)!=null){if(r.componentWillUnmount)try{r.componentWillUnmount()}catch(o){
S.__e(o,e)}r.base=r.__P=r.__n=null}if(r=t.__k)for(i=0;i<r.length;i++)r[i]&&Rr(r[i],e,n||typeof t.type!="function");n||Mn(t.__e),t.__c=t.__=t.__e=void 0}function la(t,e,n){
return this.constructor(t,n)}function Sn(t,e,n){var r,i,o,a;e==document&&(e=document.documentElement),S.__&&S.__(t,e),i=(r=typeof n=="function")?null:n&&n.__k||
e.__k,o=[],a=[],Nn(e,t=(!r&&n||e).__k=re(D,null,[t]),i||Ne,Ne,e.namespaceURI,!r&&n?[n]:i?null:e.firstChild?Ae.call(e.childNodes):null,o,!r&&n?n:i?i.__e:e.firstChild,
r,a),Or(o,t,a),t.props.children=null}Ae=$e.slice,S={__e:function(t,e,n,r){for(var i,o,a;e=e.__;)if((i=e.__c)&&!i.__)try{if((o=i.constructor)&&o.getDerivedStateFromError!=null&&(i.setState(o.getDerivedStateFromError(
t)),a=i.__d),i.componentDidCatch!=null&&(i.componentDidCatch(t,r||{}),a=i.__d),a)return i.__E=i}catch(s){t=s}throw t}},Nr=0,na=function(t){return t!=null&&t.constructor===
void 0},ot.prototype.setState=function(t,e){var n;n=this.__s!=null&&this.__s!=this.state?this.__s:this.__s=gt({},this.state),typeof t=="function"&&(t=t(gt({},n),
this.props)),t&&gt(n,t),t!=null&&this.__v&&(e&&this._sb.push(e),xr(this))},ot.prototype.forceUpdate=function(t){this.__v&&(this.__e=!0,t&&this.__h.push(t),xr(this))},
ot.prototype.render=D,Nt=[],$r=typeof Promise=="function"?Promise.prototype.then.bind(Promise.resolve()):setTimeout,Sr=function(t,e){return t.__v.__b-e.__v.__b},
Se.__r=0,bn=Math.random().toString(8),ke="__d"+bn,ee="__a"+bn,Ar=/(PointerCapture)$|Capture$/i,kn=0,wn=Mr(!1),xn=Mr(!0),ra=0;var oe,U,An,Pr,Ce=0,Vr=[],V=S,Dr=V.__b,Fr=V.__r,Lr=V.diffed,qr=V.__c,Hr=V.unmount,Br=V.__;function Cn(t,e){V.__h&&V.__h(U,t,Ce||e),Ce=0;var n=U.__H||(U.__H={__:[],
__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function X(t){return Ce=1,Wr(Yr,t)}function Wr(t,e,n){var r=Cn(oe++,2);if(r.t=t,!r.__c&&(r.__=[n?n(e):Yr(void 0,
e),function(s){var l=r.__N?r.__N[0]:r.__[0],u=r.t(l,s);l!==u&&(r.__N=[u,r.__[1]],r.__c.setState({}))}],r.__c=U,!U.__f)){var i=function(s,l,u){if(!r.__c.__H)return!0;
var h=!1,m=r.__c.props!==s;if(r.__c.__H.__.some(function(d){if(d.__N){h=!0;var _=d.__[0];d.__=d.__N,d.__N=void 0,_!==d.__[0]&&(m=!0)}}),o){var f=o.call(this,s,l,
u);return h?f||m:f}return!h||m};U.__f=!0;var o=U.shouldComponentUpdate,a=U.componentWillUpdate;U.componentWillUpdate=function(s,l,u){if(this.__e){var h=o;o=void 0,
i(s,l,u),o=h}a&&a.call(this,s,l,u)},U.shouldComponentUpdate=i}return r.__N||r.__}function Ct(t,e){var n=Cn(oe++,3);!V.__s&&Xr(n.__H,e)&&(n.__=t,n.u=e,U.__H.__h.
push(n))}function ae(t){return Ce=5,at(function(){return{current:t}},[])}function at(t,e){var n=Cn(oe++,7);return Xr(n.__H,e)&&(n.__=t(),n.__H=e,n.__h=t),n.__}function ca(){for(var t;t=Vr.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(Ee),e.__h.some(En),e.__h=[]}catch(n){e.__h=[],V.__e(n,t.__v)}}}V.__b=function(t){U=
null,Dr&&Dr(t)},V.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),Br&&Br(t,e)},V.__r=function(t){Fr&&Fr(t),oe=0;var e=(U=t.__c).__H;e&&(An===U?(e.__h=[],
U.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})):(e.__h.some(Ee),e.__h.some(En),e.__h=[],oe=0)),An=U},V.diffed=function(t){Lr&&Lr(t);var e=t.
__c;e&&e.__H&&(e.__H.__h.length&&(Vr.push(e)!==1&&Pr===V.requestAnimationFrame||((Pr=V.requestAnimationFrame)||fa)(ca)),e.__H.__.some(function(n){n.u&&(n.__H=n.
u,n.u=void 0)})),An=U=null},V.__c=function(t,e){e.some(function(n){try{n.__h.some(Ee),n.__h=n.__h.filter(function(r){return!r.__||En(r)})}catch(r){e.some(function(i){
i.__h&&(i.__h=[])}),e=[],V.__e(r,n.__v)}}),qr&&qr(t,e)},V.unmount=function(t){Hr&&Hr(t);var e,n=t.__c;n&&n.__H&&(n.__H.__.some(function(r){try{Ee(r)}catch(i){e=
i}}),n.__H=void 0,e&&V.__e(e,n.__v))};var Ur=typeof requestAnimationFrame=="function";function fa(t){var e,n=function(){clearTimeout(r),Ur&&cancelAnimationFrame(
e),setTimeout(t)},r=setTimeout(n,35);Ur&&(e=requestAnimationFrame(n))}function Ee(t){var e=U,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),U=e}function En(t){
var e=U;t.__c=t.__(),U=e}function Xr(t,e){return!t||t.length!==e.length||e.some(function(n,r){return n!==t[r]})}function Yr(t,e){return typeof e=="function"?e(t):
e}function ma(t,e){for(var n in e)t[n]=e[n];return t}function Gr(t,e){for(var n in t)if(n!=="__source"&&!(n in e))return!0;for(var r in e)if(r!=="__source"&&t[r]!==
e[r])return!0;return!1}function Kr(t,e){this.props=t,this.context=e}(Kr.prototype=new ot).isPureReactComponent=!0,Kr.prototype.shouldComponentUpdate=function(t,e){return Gr(this.props,t)||Gr(this.state,e)};var Qr=S.__b;S.__b=function(t){
t.type&&t.type.__f&&t.ref&&(t.props.ref=t.ref,t.ref=null),Qr&&Qr(t)};var yf=typeof Symbol<"u"&&Symbol.for&&Symbol.for("react.forward_ref")||3911;var pa=S.__e;S.__e=function(t,e,n,r){if(t.then){for(var i,o=e;o=o.__;)if((i=o.__c)&&i.__c)return e.__e==null&&(e.__e=n.__e,e.__k=n.__k||[]),i.__c(t,e)}pa(t,e,n,
r)};var Zr=S.unmount;function ri(t,e,n){return t&&(t.__c&&t.__c.__H&&(t.__c.__H.__.forEach(function(r){typeof r.__c=="function"&&r.__c()}),t.__c.__H=null),(t=ma(
{},t)).__c!=null&&(t.__c.__P===n&&(t.__c.__P=e),t.__c.__e=!0,t.__c=null),t.__k=t.__k&&t.__k.map(function(r){return ri(r,e,n)})),t}function ii(t,e,n){return t&&n&&
(t.__v=null,t.__k=t.__k&&t.__k.map(function(r){return ii(r,e,n)}),t.__c&&t.__c.__P===e&&(t.__e&&n.appendChild(t.__e),t.__c.__e=!0,t.__c.__P=n)),t}function In(){
this.__u=0,this.o=null,this.__b=null}function oi(t){var e=t.__&&t.__.__c;return e&&e.__a&&e.__a(t)}function Ie(){this.i=null,this.l=null}S.unmount=function(t){var e=t.__c;e&&(e.__z=!0),e&&e.__R&&e.__R(),e&&32&t.__u&&(t.type=null),Zr&&Zr(t)},(In.prototype=new ot).
__c=function(t,e){var n=e.__c,r=this;r.o==null&&(r.o=[]),r.o.push(n);var i=oi(r.__v),o=!1,a=function(){o||r.__z||(o=!0,n.__R=null,i?i(l):l())};n.__R=a;var s=n.__P;
n.__P=null;var l=function(){if(!--r.__u){if(r.state.__a){var u=r.state.__a;r.__v.__k[0]=ii(u,u.__c.__P,u.__c.__O)}var h;for(r.setState({__a:r.__b=null});h=r.o.pop();)
h.__P=s,h.forceUpdate()}};r.__u++||32&e.__u||r.setState({__a:r.__b=r.__v.__k[0]}),t.then(a,a)},In.prototype.componentWillUnmount=function(){this.o=[]},In.prototype.
render=function(t,e){if(this.__b){if(this.__v.__k){var n=document.createElement("div"),r=this.__v.__k[0].__c;this.__v.__k[0]=ri(this.__b,n,r.__O=r.__P)}this.__b=
null}var i=e.__a&&re(D,null,t.fallback);return i&&(i.__u&=-33),[re(D,null,e.__a?null:t.children),i]};var Jr=function(t,e,n){if(++n[1]===n[0]&&t.l.delete(e),t.props.
revealOrder&&(t.props.revealOrder[0]!=="t"||!t.l.size))for(n=t.i;n;){for(;n.length>3;)n.pop()();if(n[1]<n[0])break;t.i=n=n[2]}};(Ie.prototype=new ot).__a=function(t){var e=this,n=oi(e.__v),r=e.l.get(t);return r[0]++,function(i){var o=function(){e.props.revealOrder?(r.push(i),Jr(e,t,r)):i()};
n?n(o):o()}},Ie.prototype.render=function(t){this.i=null,this.l=new Map;var e=ie(t.children);t.revealOrder&&t.revealOrder[0]==="b"&&e.reverse();for(var n=e.length;n--;)
this.l.set(e[n],this.i=[1,0,this.i]);return t.children},Ie.prototype.componentDidUpdate=Ie.prototype.componentDidMount=function(){var t=this;this.l.forEach(function(e,n){
Jr(t,n,e)})};var _a=typeof Symbol<"u"&&Symbol.for&&Symbol.for("react.element")||60103,ga=/^(?:accent|alignment|arabic|baseline|cap|clip(?!PathU)|color|dominant|fill|flood|font|glyph(?!R)|horiz|image(!S)|letter|lighting|marker(?!H|W|U)|overline|paint|pointer|shape|stop|strikethrough|stroke|text(?!L)|transform|underline|unicode|units|v|vector|vert|word|writing|x(?!C))[A-Z]/,
ya=/^on(Ani|Tra|Tou|BeforeInp|Compo)/,va=/[A-Z0-9]/g,ba=typeof document<"u",wa=function(t){return(typeof Symbol<"u"&&typeof Symbol()=="symbol"?/fil|che|rad/:/fil|che|ra/).
test(t)};ot.prototype.isReactComponent=!0,["componentWillMount","componentWillReceiveProps","componentWillUpdate"].forEach(function(t){Object.defineProperty(ot.prototype,
t,{configurable:!0,get:function(){return this["UNSAFE_"+t]},set:function(e){Object.defineProperty(this,t,{configurable:!0,writable:!0,value:e})}})});var jr=S.event;
S.event=function(t){return jr&&(t=jr(t)),t.persist=function(){},t.isPropagationStopped=function(){return this.cancelBubble},t.isDefaultPrevented=function(){return this.
defaultPrevented},t.nativeEvent=t};var ai,xa={configurable:!0,get:function(){return this.class}},ti=S.vnode;S.vnode=function(t){typeof t.type=="string"&&(function(e){
var n=e.props,r=e.type,i={},o=r.indexOf("-")==-1;for(var a in n){var s=n[a];if(!(a==="value"&&"defaultValue"in n&&s==null||ba&&a==="children"&&r==="noscript"||a===
"class"||a==="className")){var l=a.toLowerCase();a==="defaultValue"&&"value"in n&&n.value==null?a="value":a==="download"&&s===!0?s="":l==="translate"&&s==="no"?
s=!1:l[0]==="o"&&l[1]==="n"?l==="ondoubleclick"?a="ondblclick":l!=="onchange"||r!=="input"&&r!=="textarea"||wa(n.type)?l==="onfocus"?a="onfocusin":l==="onblur"?
a="onfocusout":ya.test(a)&&(a=l):l=a="oninput":o&&ga.test(a)?a=a.replace(va,"-$&").toLowerCase():s===null&&(s=void 0),l==="oninput"&&i[a=l]&&(a="oninputCapture"),
i[a]=s}}r=="select"&&(i.multiple&&Array.isArray(i.value)&&(i.value=ie(n.children).forEach(function(u){u.props.selected=i.value.indexOf(u.props.value)!=-1})),i.defaultValue!=
null&&(i.value=ie(n.children).forEach(function(u){u.props.selected=i.multiple?i.defaultValue.indexOf(u.props.value)!=-1:i.defaultValue==u.props.value}))),n.class&&
!n.className?(i.class=n.class,Object.defineProperty(i,"className",xa)):n.className&&(i.class=i.className=n.className),e.props=i})(t),t.$$typeof=_a,ti&&ti(t)};var ei=S.
__r;S.__r=function(t){ei&&ei(t),ai=t.__c};var ni=S.diffed;S.diffed=function(t){ni&&ni(t);var e=t.props,n=t.__e;n!=null&&t.type==="textarea"&&"value"in e&&e.value!==
n.value&&(n.value=e.value==null?"":e.value),ai=null};var si=function(t,e){var n,r=S.debounceRendering;S.debounceRendering=function(o){n=o};try{var i=t(e);return n&&n(),i}finally{S.debounceRendering=r}};var ka=/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu,N=t=>String(t).replace(ka,e=>`\\u${e.codePointAt(0).toString(
16).padStart(4,"0")}`);function z(t,e=48){let n=N(t);if(n.length<=e)return n;let r=Math.ceil((e-1)*.6);return`${n.slice(0,r)}\u2026${n.slice(n.length-(e-1-r))}`}
var T=t=>t==null?"":t.toLocaleString("en-US");function P(t){return t==null?"":t<1e4?`${T(t)} B`:t<1e6?`${(t/1e3).toFixed(1)} kB`:`${(t/1e6).toFixed(1)} MB`}function $t(t){
if(t==null)return"";for(let[e,n]of[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]])if(t>=e)return`${(t/e).toPrecision(3)} ${n}`;return`${Math.round(t)} ns`}var yt=(t,e)=>t.
unit==="ns"?$t(e):`${T(e)} instr.`,st=(t,e=1)=>t==null||!isFinite(t)?"":`${(100*t).toFixed(e)} %`,Bt=t=>t===null||!isFinite(t)?"":`${t>0?"+":""}${(100*t).toFixed(
1)} %`,q=t=>t==null?"":t===0?"0":Math.abs(t)>=.001&&Math.abs(t)<1e5?String(Number(t.toPrecision(4))):t.toExponential(2),W=t=>t.sources.length?t.sources.join(", "):
t.name,It=t=>`${t.dtype}[${t.shape===null?"\u2026":t.shape.join(", ")}]`;function Tn(t){let e=t==null?"":typeof t=="number"?String(t):String(t).replace(/^[=+\-@\t\r]/,
"'$&");return/[",\r\n]/.test(e)?`"${e.replaceAll('"','""')}"`:e}var Ma=0;function c(t,e,n,r,i,o){e||(e={});var a,s,l=e;if("ref"in l)for(s in l={},e)s=="ref"?a=e[s]:l[s]=e[s];var u={type:t,props:l,key:n,ref:a,__k:null,__:null,__b:0,__e:null,
__c:null,constructor:void 0,__v:--Ma,__i:-1,__u:0,__source:i,__self:o};if(typeof t=="function"&&(a=t.defaultProps))for(s in a)l[s]===void 0&&(l[s]=a[s]);return S.
vnode&&S.vnode(u),u}function K({caption:t,columns:e,rows:n,first:r,words:i,onPick:o,picked:a}){let[s,l]=X(r??{column:0,down:!1}),[u,h]=X(""),[m,f]=X(""),d=at(()=>{let b=u.toLowerCase(),
g=b?n.filter($=>e.some(R=>String(R.value($)??"").toLowerCase().includes(b))):n,{value:M}=e[s.column],w=s.down?-1:1;return[...g].sort(($,R)=>w*Na(M($),M(R)))},[n,
e,s,u]),_=()=>[e.map(b=>Tn(b.name)),...d.map(b=>e.map(g=>Tn(g.value(b))))].map(b=>b.join(",")).join(`\r
`);return c("div",{class:"tabled",children:[c("div",{class:"tools",children:[c("label",{children:["Filter ",c("input",{type:"search",value:u,onInput:b=>h(b.currentTarget.
value)})]}),c("button",{type:"button",onClick:async()=>f(await $a(_())?`${d.length} rows copied`:"the browser does not let this page copy"),children:"Copy as CS\
V"}),c("span",{class:"note","aria-live":"polite",children:m||(u?`${d.length} of ${n.length}`:i??"")})]}),c("div",{class:"scroll",tabIndex:0,role:"region","aria-\
label":t,children:c("table",{children:[c("caption",{class:"unseen",children:t}),c("thead",{children:c("tr",{children:e.map((b,g)=>c("th",{scope:"col",class:b.number?
"number":"","aria-sort":s.column===g?s.down?"descending":"ascending":"none",children:c("button",{type:"button",onClick:()=>l({column:g,down:s.column===g?!s.down:
!!b.number&&g>0}),children:[b.name,c("span",{"aria-hidden":"true",children:s.column===g?s.down?" \u25BE":" \u25B4":""})]})},g))})}),c("tbody",{children:d.map((b,g)=>c(
"tr",{class:a!==void 0&&a===b.index?"picked":"",children:e.map((M,w)=>c("td",{class:M.number?"number":"text",children:M.pick&&o?c("button",{type:"button",class:"\
link",onClick:()=>o(b),children:ui(M,b)}):ui(M,b)},w))},b.key??b.index??g))})]})})]})}var ui=(t,e)=>t.show?t.show(e):String(t.value(e)??"");function Na(t,e){let[
n,r]=[t??-1/0,e??-1/0];return typeof n=="number"&&typeof r=="number"?n-r||0:String(t??"").localeCompare(String(e??""),"en",{numeric:!0})}async function $a(t){try{
return await navigator.clipboard.writeText(t),!0}catch{let e=document.body.appendChild(Object.assign(document.createElement("textarea"),{value:t}));e.select();let n=document.
execCommand("copy");return e.remove(),n}}function li({report:t}){return c(D,{children:[t.boards.length>0&&c("section",{class:"card",children:[c("h2",{children:"Boards"}),c(K,{caption:"Boards",rows:t.boards.
map((e,n)=>({...e,key:n})),first:{column:0,down:!1},columns:[{name:"board",value:e=>e.board},{name:"core",value:e=>e.target},{name:"fits",value:e=>e.fits?"fits":
"does not fit",show:e=>c("span",{class:e.fits?"good":"bad",children:e.fits?"fits":"does not fit"})},{name:"flash",value:e=>e.flash_bytes,show:e=>`${P(e.flash_bytes)}\
 of ${P(e.flash_of_board)}`,number:!0},{name:"RAM",value:e=>e.ram_bytes,show:e=>`${P(e.ram_bytes)} of ${P(e.ram_of_board)}`,number:!0},{name:"stack",value:e=>e.
stack_bytes??null,show:e=>P(e.stack_bytes),number:!0},{name:"instructions",value:e=>e.instructions??null,show:e=>T(e.instructions),number:!0},{name:"ms",value:e=>e.
estimated_milliseconds??null,show:e=>e.estimated_milliseconds?Number(e.estimated_milliseconds.toPrecision(3)):"",number:!0},{name:"\xB5J",value:e=>e.estimated_microjoules??
null,show:e=>e.estimated_microjoules?Number(e.estimated_microjoules.toPrecision(3)):"",number:!0}]}),c("p",{class:"note",children:"Flash, RAM, stack and instruc\
tions are measured on an emulated core; milliseconds and microjoules are estimates from the boards' data sheets."})]}),t.targets.length>0&&c("section",{class:"c\
ard",children:[c("h2",{children:"Targets"}),c(K,{caption:"Targets",rows:t.targets.map((e,n)=>({...e,key:n})),columns:[{name:"target",value:e=>e.target,show:e=>N(
e.target)},{name:"size",value:e=>e.bytes,show:e=>P(e.bytes),number:!0},{name:"weights",value:e=>e.weights_bytes,show:e=>P(e.weights_bytes),number:!0},{name:"cod\
e",value:e=>e.code_bytes,show:e=>P(e.code_bytes),number:!0},{name:"arena",value:e=>e.arena_bytes,show:e=>P(e.arena_bytes),number:!0},{name:"nodes",value:e=>e.nodes,
show:e=>T(e.nodes),number:!0},{name:"time",value:e=>e.nanoseconds??e.instructions??null,show:e=>e.nanoseconds?$t(e.nanoseconds):e.instructions?`${T(e.instructions)}\
 instr.`:"",number:!0},{name:"measured",value:e=>e.where??"",show:e=>N(e.where??"not measured")}]})]})]})}var ci=(t,e)=>t.a?.[e]&&t.b?.[e]!==null&&t.b?.[e]!==void 0?t.b[e]/t.a[e]-1:null,fi={bytes:P,duration:$t,count:T,small:q};function hi({report:t,subjects:e,pick:n,
label:r}){let{comparison:i}=t,a=e.every(s=>s.time?.unit==="ns")?$t:T;return c(D,{children:[c("p",{class:`verdict ${i.ok?"good":"bad"}`,role:"status",children:[c(
"b",{children:i.ok?"No limit is exceeded.":"A limit is exceeded."})," ",i.verdict.map(N).join(" ")]}),c("section",{class:"card",children:[c("h2",{children:"In s\
um"}),c("div",{class:"scroll",tabIndex:0,role:"region","aria-label":"In sum",children:c("table",{children:[c("thead",{children:c("tr",{children:[c("th",{scope:"\
col",children:"what"}),e.map((s,l)=>c("th",{scope:"col",class:"number",children:z(r(s,l),36)},l)),c("th",{scope:"col",class:"number",children:"change"})]})}),c(
"tbody",{children:i.totals.map(s=>c("tr",{children:[c("td",{children:N(s.what)}),c("td",{class:"number",children:fi[s.unit](s.a)}),c("td",{class:"number",children:fi[s.
unit](s.b)}),c("td",{class:"number",children:s.a?Bt(s.b/s.a-1):""})]},s.what))})]})})]}),i.outputs.length>0&&c("section",{class:"card",children:[c("h2",{children:"\
Outputs of B beside those of A"}),c(Sa,{rows:i.outputs})]}),c("section",{class:"card",children:[c("h2",{children:"Layer by layer"}),c(K,{caption:"Layers of both",
rows:i.layers.map((s,l)=>({...s,key:l})),first:{column:1,down:!0},onPick:s=>s.b?n(s.b.nodes[0],1):n(s.a.nodes[0],0),columns:[{name:"nodes of the model",value:s=>s.
sources.join(", "),show:s=>z(s.sources.join(", ")||s.name,44),pick:!0},{name:"time A",value:s=>s.a?.time??null,show:s=>a(s.a?.time),number:!0},{name:"time B",value:s=>s.
b?.time??null,show:s=>a(s.b?.time),number:!0},{name:"time",value:s=>ci(s,"time"),show:s=>Bt(ci(s,"time")),number:!0},{name:"weights A",value:s=>s.a?.weights_bytes??
null,show:s=>T(s.a?.weights_bytes),number:!0},{name:"weights B",value:s=>s.b?.weights_bytes??null,show:s=>T(s.b?.weights_bytes),number:!0},{name:"code A",value:s=>s.
a?.code_bytes??null,show:s=>T(s.a?.code_bytes),number:!0},{name:"code B",value:s=>s.b?.code_bytes??null,show:s=>T(s.b?.code_bytes),number:!0},{name:"error",value:s=>s.
error,show:s=>q(s.error),number:!0}]})]})]})}function Sa({rows:t}){return c(K,{caption:"Outputs",rows:t.map((e,n)=>({...e,key:n})),columns:[{name:"output",value:e=>e.
name,show:e=>z(e.name)},{name:"largest error",value:e=>e.error,show:e=>q(e.error),number:!0},{name:"mean error",value:e=>e.mean,show:e=>q(e.mean),number:!0},{name:"\
cosine",value:e=>e.cosine,show:e=>e.cosine===null?"":e.cosine.toFixed(6),number:!0}]})}var On="http://www.w3.org/1999/xhtml",di={svg:"http://www.w3.org/2000/svg",xhtml:On,xlink:"http://www.w3.org/1999/xlink",xml:"http://www.w3.org/XML/1998/namespa\
ce",xmlns:"http://www.w3.org/2000/xmlns/"};function se(t){var e=t+="",n=e.indexOf(":");return n>=0&&(e=t.slice(0,n))!=="xmlns"&&(t=t.slice(n+1)),di.hasOwnProperty(
e)?{space:di[e],local:t}:t}function Aa(t){return function(){var e=this.ownerDocument,n=this.namespaceURI;return n===On&&e.documentElement.namespaceURI===On?e.createElement(
t):e.createElementNS(n,t)}}function Ea(t){return function(){return this.ownerDocument.createElementNS(t.space,t.local)}}function mi(t){var e=se(t);return(e.local?
Ea:Aa)(e)}function Ca(){}function Oe(t){return t==null?Ca:function(){return this.querySelector(t)}}function Ia(t){typeof t!="function"&&(t=Oe(t));for(var e=this.
_groups,n=e.length,r=new Array(n),i=0;i<n;++i)for(var o=e[i],a=o.length,s=r[i]=new Array(a),l,u,h=0;h<a;++h)(l=o[h])&&(u=t.call(l,l.__data__,h,o))&&("__data__"in
l&&(u.__data__=l.__data__),s[h]=u);return new et(r,this._parents)}function Ta(t){return t==null?[]:Array.isArray(t)?t:Array.from(t)}function Oa(){return[]}function Rn(t){
return t==null?Oa:function(){return this.querySelectorAll(t)}}function za(t){return function(){return Ta(t.apply(this,arguments))}}function Ra(t){typeof t=="fun\
ction"?t=za(t):t=Rn(t);for(var e=this._groups,n=e.length,r=[],i=[],o=0;o<n;++o)for(var a=e[o],s=a.length,l,u=0;u<s;++u)(l=a[u])&&(r.push(t.call(l,l.__data__,u,a)),
i.push(l));return new et(r,i)}function Pn(t){return function(){return this.matches(t)}}function pi(t){return function(e){return e.matches(t)}}var Pa=Array.prototype.
find;function Da(t){return function(){return Pa.call(this.children,t)}}function Fa(){return this.firstElementChild}function La(t){return this.select(t==null?Fa:
Da(typeof t=="function"?t:pi(t)))}var qa=Array.prototype.filter;function Ha(){return Array.from(this.children)}function Ba(t){return function(){return qa.call(this.
children,t)}}function Ua(t){return this.selectAll(t==null?Ha:Ba(typeof t=="function"?t:pi(t)))}function Va(t){typeof t!="function"&&(t=Pn(t));for(var e=this._groups,
n=e.length,r=new Array(n),i=0;i<n;++i)for(var o=e[i],a=o.length,s=r[i]=[],l,u=0;u<a;++u)(l=o[u])&&t.call(l,l.__data__,u,o)&&s.push(l);return new et(r,this._parents)}
function _i(t){return new Array(t.length)}function Wa(){return new et(this._enter||this._groups.map(_i),this._parents)}function Te(t,e){this.ownerDocument=t.ownerDocument,
this.namespaceURI=t.namespaceURI,this._next=null,this._parent=t,this.__data__=e}Te.prototype={constructor:Te,appendChild:function(t){return this._parent.insertBefore(
t,this._next)},insertBefore:function(t,e){return this._parent.insertBefore(t,e)},querySelector:function(t){return this._parent.querySelector(t)},querySelectorAll:function(t){
return this._parent.querySelectorAll(t)}};function Xa(t){return function(){return t}}function Ya(t,e,n,r,i,o){for(var a=0,s,l=e.length,u=o.length;a<u;++a)(s=e[a])?
(s.__data__=o[a],r[a]=s):n[a]=new Te(t,o[a]);for(;a<l;++a)(s=e[a])&&(i[a]=s)}function Ga(t,e,n,r,i,o,a){var s,l,u=new Map,h=e.length,m=o.length,f=new Array(h),d;
for(s=0;s<h;++s)(l=e[s])&&(f[s]=d=a.call(l,l.__data__,s,e)+"",u.has(d)?i[s]=l:u.set(d,l));for(s=0;s<m;++s)d=a.call(t,o[s],s,o)+"",(l=u.get(d))?(r[s]=l,l.__data__=
o[s],u.delete(d)):n[s]=new Te(t,o[s]);for(s=0;s<h;++s)(l=e[s])&&u.get(f[s])===l&&(i[s]=l)}function Ka(t){return t.__data__}function Qa(t,e){if(!arguments.length)
return Array.from(this,Ka);var n=e?Ga:Ya,r=this._parents,i=this._groups;typeof t!="function"&&(t=Xa(t));for(var o=i.length,a=new Array(o),s=new Array(o),l=new Array(
o),u=0;u<o;++u){var h=r[u],m=i[u],f=m.length,d=Za(t.call(h,h&&h.__data__,u,r)),_=d.length,v=s[u]=new Array(_),b=a[u]=new Array(_),g=l[u]=new Array(f);n(h,m,v,b,
g,d,e);for(var M=0,w=0,$,R;M<_;++M)if($=v[M]){for(M>=w&&(w=M+1);!(R=b[w])&&++w<_;);$._next=R||null}}return a=new et(a,r),a._enter=s,a._exit=l,a}function Za(t){return typeof t==
"object"&&"length"in t?t:Array.from(t)}function Ja(){return new et(this._exit||this._groups.map(_i),this._parents)}function ja(t,e,n){var r=this.enter(),i=this,
o=this.exit();return typeof t=="function"?(r=t(r),r&&(r=r.selection())):r=r.append(t+""),e!=null&&(i=e(i),i&&(i=i.selection())),n==null?o.remove():n(o),r&&i?r.merge(
i).order():i}function ts(t){for(var e=t.selection?t.selection():t,n=this._groups,r=e._groups,i=n.length,o=r.length,a=Math.min(i,o),s=new Array(i),l=0;l<a;++l)for(var u=n[l],
h=r[l],m=u.length,f=s[l]=new Array(m),d,_=0;_<m;++_)(d=u[_]||h[_])&&(f[_]=d);for(;l<i;++l)s[l]=n[l];return new et(s,this._parents)}function es(){for(var t=this.
_groups,e=-1,n=t.length;++e<n;)for(var r=t[e],i=r.length-1,o=r[i],a;--i>=0;)(a=r[i])&&(o&&a.compareDocumentPosition(o)^4&&o.parentNode.insertBefore(a,o),o=a);return this}
function ns(t){t||(t=rs);function e(m,f){return m&&f?t(m.__data__,f.__data__):!m-!f}for(var n=this._groups,r=n.length,i=new Array(r),o=0;o<r;++o){for(var a=n[o],
s=a.length,l=i[o]=new Array(s),u,h=0;h<s;++h)(u=a[h])&&(l[h]=u);l.sort(e)}return new et(i,this._parents).order()}function rs(t,e){return t<e?-1:t>e?1:t>=e?0:NaN}
function is(){var t=arguments[0];return arguments[0]=this,t.apply(null,arguments),this}function os(){return Array.from(this)}function as(){for(var t=this._groups,
e=0,n=t.length;e<n;++e)for(var r=t[e],i=0,o=r.length;i<o;++i){var a=r[i];if(a)return a}return null}function ss(){let t=0;for(let e of this)++t;return t}function us(){
return!this.node()}function ls(t){for(var e=this._groups,n=0,r=e.length;n<r;++n)for(var i=e[n],o=0,a=i.length,s;o<a;++o)(s=i[o])&&t.call(s,s.__data__,o,i);return this}
function cs(t){return function(){this.removeAttribute(t)}}function fs(t){return function(){this.removeAttributeNS(t.space,t.local)}}function hs(t,e){return function(){
this.setAttribute(t,e)}}function ds(t,e){return function(){this.setAttributeNS(t.space,t.local,e)}}function ms(t,e){return function(){var n=e.apply(this,arguments);
n==null?this.removeAttribute(t):this.setAttribute(t,n)}}function ps(t,e){return function(){var n=e.apply(this,arguments);n==null?this.removeAttributeNS(t.space,
t.local):this.setAttributeNS(t.space,t.local,n)}}function _s(t,e){var n=se(t);if(arguments.length<2){var r=this.node();return n.local?r.getAttributeNS(n.space,n.
local):r.getAttribute(n)}return this.each((e==null?n.local?fs:cs:typeof e=="function"?n.local?ps:ms:n.local?ds:hs)(n,e))}function gi(t){return t.ownerDocument&&
t.ownerDocument.defaultView||t.document&&t||t.defaultView}function gs(t){return function(){this.style.removeProperty(t)}}function ys(t,e,n){return function(){this.
style.setProperty(t,e,n)}}function vs(t,e,n){return function(){var r=e.apply(this,arguments);r==null?this.style.removeProperty(t):this.style.setProperty(t,r,n)}}
function bs(t,e,n){return arguments.length>1?this.each((e==null?gs:typeof e=="function"?vs:ys)(t,e,n??"")):Tt(this.node(),t)}function Tt(t,e){return t.style.getPropertyValue(
e)||gi(t).getComputedStyle(t,null).getPropertyValue(e)}function ws(t){return function(){delete this[t]}}function xs(t,e){return function(){this[t]=e}}function ks(t,e){
return function(){var n=e.apply(this,arguments);n==null?delete this[t]:this[t]=n}}function Ms(t,e){return arguments.length>1?this.each((e==null?ws:typeof e=="fu\
nction"?ks:xs)(t,e)):this.node()[t]}function yi(t){return t.trim().split(/^|\s+/)}function Dn(t){return t.classList||new vi(t)}function vi(t){this._node=t,this.
_names=yi(t.getAttribute("class")||"")}vi.prototype={add:function(t){var e=this._names.indexOf(t);e<0&&(this._names.push(t),this._node.setAttribute("class",this.
_names.join(" ")))},remove:function(t){var e=this._names.indexOf(t);e>=0&&(this._names.splice(e,1),this._node.setAttribute("class",this._names.join(" ")))},contains:function(t){
return this._names.indexOf(t)>=0}};function bi(t,e){for(var n=Dn(t),r=-1,i=e.length;++r<i;)n.add(e[r])}function wi(t,e){for(var n=Dn(t),r=-1,i=e.length;++r<i;)n.
remove(e[r])}function Ns(t){return function(){bi(this,t)}}function $s(t){return function(){wi(this,t)}}function Ss(t,e){return function(){(e.apply(this,arguments)?
bi:wi)(this,t)}}function As(t,e){var n=yi(t+"");if(arguments.length<2){for(var r=Dn(this.node()),i=-1,o=n.length;++i<o;)if(!r.contains(n[i]))return!1;return!0}return this.
each((typeof e=="function"?Ss:e?Ns:$s)(n,e))}function Es(){this.textContent=""}function Cs(t){return function(){this.textContent=t}}function Is(t){return function(){
var e=t.apply(this,arguments);this.textContent=e??""}}function Ts(t){return arguments.length?this.each(t==null?Es:(typeof t=="function"?Is:Cs)(t)):this.node().textContent}
function Os(){this.innerHTML=""}function zs(t){return function(){this.innerHTML=t}}function Rs(t){return function(){var e=t.apply(this,arguments);this.innerHTML=
e??""}}function Ps(t){return arguments.length?this.each(t==null?Os:(typeof t=="function"?Rs:zs)(t)):this.node().innerHTML}function Ds(){this.nextSibling&&this.parentNode.
appendChild(this)}function Fs(){return this.each(Ds)}function Ls(){this.previousSibling&&this.parentNode.insertBefore(this,this.parentNode.firstChild)}function qs(){
return this.each(Ls)}function Hs(t){var e=typeof t=="function"?t:mi(t);return this.select(function(){return this.appendChild(e.apply(this,arguments))})}function Bs(){
return null}function Us(t,e){var n=typeof t=="function"?t:mi(t),r=e==null?Bs:typeof e=="function"?e:Oe(e);return this.select(function(){return this.insertBefore(
n.apply(this,arguments),r.apply(this,arguments)||null)})}function Vs(){var t=this.parentNode;t&&t.removeChild(this)}function Ws(){return this.each(Vs)}function Xs(){
var t=this.cloneNode(!1),e=this.parentNode;return e?e.insertBefore(t,this.nextSibling):t}function Ys(){var t=this.cloneNode(!0),e=this.parentNode;return e?e.insertBefore(
t,this.nextSibling):t}function Gs(t){return this.select(t?Ys:Xs)}function Ks(t){return arguments.length?this.property("__data__",t):this.node().__data__}function Qs(t){
return function(e){t.call(this,e,this.__data__)}}function Zs(t){return t.trim().split(/^|\s+/).map(function(e){var n="",r=e.indexOf(".");return r>=0&&(n=e.slice(
r+1),e=e.slice(0,r)),{type:e,name:n}})}function Js(t){return function(){var e=this.__on;if(e){for(var n=0,r=-1,i=e.length,o;n<i;++n)o=e[n],(!t.type||o.type===t.
type)&&o.name===t.name?this.removeEventListener(o.type,o.listener,o.options):e[++r]=o;++r?e.length=r:delete this.__on}}}function js(t,e,n){return function(){var r=this.
__on,i,o=Qs(e);if(r){for(var a=0,s=r.length;a<s;++a)if((i=r[a]).type===t.type&&i.name===t.name){this.removeEventListener(i.type,i.listener,i.options),this.addEventListener(
i.type,i.listener=o,i.options=n),i.value=e;return}}this.addEventListener(t.type,o,n),i={type:t.type,name:t.name,value:e,listener:o,options:n},r?r.push(i):this.__on=
[i]}}function tu(t,e,n){var r=Zs(t+""),i,o=r.length,a;if(arguments.length<2){var s=this.node().__on;if(s){for(var l=0,u=s.length,h;l<u;++l)for(i=0,h=s[l];i<o;++i)
if((a=r[i]).type===h.type&&a.name===h.name)return h.value}return}for(s=e?js:Js,i=0;i<o;++i)this.each(s(r[i],e,n));return this}function xi(t,e,n){var r=gi(t),i=r.
CustomEvent;typeof i=="function"?i=new i(e,n):(i=r.document.createEvent("Event"),n?(i.initEvent(e,n.bubbles,n.cancelable),i.detail=n.detail):i.initEvent(e,!1,!1)),
t.dispatchEvent(i)}function eu(t,e){return function(){return xi(this,t,e)}}function nu(t,e){return function(){return xi(this,t,e.apply(this,arguments))}}function ru(t,e){
return this.each((typeof e=="function"?nu:eu)(t,e))}function*iu(){for(var t=this._groups,e=0,n=t.length;e<n;++e)for(var r=t[e],i=0,o=r.length,a;i<o;++i)(a=r[i])&&
(yield a)}var ki=[null];function et(t,e){this._groups=t,this._parents=e}function Ot(){return new et([[document.documentElement]],ki)}function ou(){return this}et.
prototype=Ot.prototype={constructor:et,select:Ia,selectAll:Ra,selectChild:La,selectChildren:Ua,filter:Va,data:Qa,enter:Wa,exit:Ja,join:ja,merge:ts,selection:ou,
order:es,sort:ns,call:is,nodes:os,node:as,size:ss,empty:us,each:ls,attr:_s,style:bs,property:Ms,classed:As,text:Ts,html:Ps,raise:Fs,lower:qs,append:Hs,insert:Us,
remove:Ws,clone:Gs,datum:Ks,on:tu,dispatch:ru,[Symbol.iterator]:iu};function Z(t){return typeof t=="string"?new et([[document.querySelector(t)]],[document.documentElement]):
new et([[t]],ki)}var au=0;function su(){return new zn}function zn(){this._="@"+(++au).toString(36)}zn.prototype=su.prototype={constructor:zn,get:function(t){for(var e=this._;!(e in
t);)if(!(t=t.parentNode))return;return t[e]},set:function(t,e){return t[this._]=e},remove:function(t){return this._ in t&&delete t[this._]},toString:function(){
return this._}};function uu(t){let e;for(;e=t.sourceEvent;)t=e;return t}function vt(t,e){if(t=uu(t),e===void 0&&(e=t.currentTarget),e){var n=e.ownerSVGElement||
e;if(n.createSVGPoint){var r=n.createSVGPoint();return r.x=t.clientX,r.y=t.clientY,r=r.matrixTransform(e.getScreenCTM().inverse()),[r.x,r.y]}if(e.getBoundingClientRect){
var i=e.getBoundingClientRect();return[t.clientX-i.left-e.clientLeft,t.clientY-i.top-e.clientTop]}}return[t.pageX,t.pageY]}var lu={value:()=>{}};function ue(){for(var t=0,e=arguments.length,n={},r;t<e;++t){if(!(r=arguments[t]+"")||r in n||/[\s.]/.test(r))throw new Error("illegal typ\
e: "+r);n[r]=[]}return new ze(n)}function ze(t){this._=t}function cu(t,e){return t.trim().split(/^|\s+/).map(function(n){var r="",i=n.indexOf(".");if(i>=0&&(r=n.
slice(i+1),n=n.slice(0,i)),n&&!e.hasOwnProperty(n))throw new Error("unknown type: "+n);return{type:n,name:r}})}ze.prototype=ue.prototype={constructor:ze,on:function(t,e){
var n=this._,r=cu(t+"",n),i,o=-1,a=r.length;if(arguments.length<2){for(;++o<a;)if((i=(t=r[o]).type)&&(i=fu(n[i],t.name)))return i;return}if(e!=null&&typeof e!="\
function")throw new Error("invalid callback: "+e);for(;++o<a;)if(i=(t=r[o]).type)n[i]=Mi(n[i],t.name,e);else if(e==null)for(i in n)n[i]=Mi(n[i],t.name,null);return this},
copy:function(){var t={},e=this._;for(var n in e)t[n]=e[n].slice();return new ze(t)},call:function(t,e){if((i=arguments.length-2)>0)for(var n=new Array(i),r=0,i,
o;r<i;++r)n[r]=arguments[r+2];if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(o=this._[t],r=0,i=o.length;r<i;++r)o[r].value.apply(e,n)},apply:function(t,e,n){
if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(var r=this._[t],i=0,o=r.length;i<o;++i)r[i].value.apply(e,n)}};function fu(t,e){for(var n=0,
r=t.length,i;n<r;++n)if((i=t[n]).name===e)return i.value}function Mi(t,e,n){for(var r=0,i=t.length;r<i;++r)if(t[r].name===e){t[r]=lu,t=t.slice(0,r).concat(t.slice(
r+1));break}return n!=null&&t.push({name:e,value:n}),t}var Fn={capture:!0,passive:!1};function Ln(t){t.preventDefault(),t.stopImmediatePropagation()}function Ni(t){var e=t.document.documentElement,n=Z(t).on("dragstart.drag",Ln,Fn);"onselectstart"in
e?n.on("selectstart.drag",Ln,Fn):(e.__noselect=e.style.MozUserSelect,e.style.MozUserSelect="none")}function $i(t,e){var n=t.document.documentElement,r=Z(t).on("\
dragstart.drag",null);e&&(r.on("click.drag",Ln,Fn),setTimeout(function(){r.on("click.drag",null)},0)),"onselectstart"in n?r.on("selectstart.drag",null):(n.style.
MozUserSelect=n.__noselect,delete n.__noselect)}function hu(t,{sourceEvent:e,subject:n,target:r,identifier:i,active:o,x:a,y:s,dx:l,dy:u,dispatch:h}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},
sourceEvent:{value:e,enumerable:!0,configurable:!0},subject:{value:n,enumerable:!0,configurable:!0},target:{value:r,enumerable:!0,configurable:!0},identifier:{value:i,
enumerable:!0,configurable:!0},active:{value:o,enumerable:!0,configurable:!0},x:{value:a,enumerable:!0,configurable:!0},y:{value:s,enumerable:!0,configurable:!0},
dx:{value:l,enumerable:!0,configurable:!0},dy:{value:u,enumerable:!0,configurable:!0},_:{value:h}})}hu.prototype.on=function(){var t=this._.on.apply(this._,arguments);
return t===this._?this:t};function Xt(t,e,n){t.prototype=e.prototype=n,n.constructor=t}function fe(t,e){var n=Object.create(t.prototype);for(var r in e)n[r]=e[r];return n}function St(){}
var Dt=.7,Wt=1/Dt,Ut="\\s*([+-]?\\d+)\\s*",le="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*",ft="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*",du=/^#([0-9a-f]{3,8})$/,
mu=new RegExp(`^rgb\\(${Ut},${Ut},${Ut}\\)$`),pu=new RegExp(`^rgb\\(${ft},${ft},${ft}\\)$`),_u=new RegExp(`^rgba\\(${Ut},${Ut},${Ut},${le}\\)$`),gu=new RegExp(`\
^rgba\\(${ft},${ft},${ft},${le}\\)$`),yu=new RegExp(`^hsl\\(${le},${ft},${ft}\\)$`),vu=new RegExp(`^hsla\\(${le},${ft},${ft},${le}\\)$`),Si={aliceblue:15792383,
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
Xt(St,wt,{copy(t){return Object.assign(new this.constructor,this,t)},displayable(){return this.rgb().displayable()},hex:Ai,formatHex:Ai,formatHex8:bu,formatHsl:wu,
formatRgb:Ei,toString:Ei});function Ai(){return this.rgb().formatHex()}function bu(){return this.rgb().formatHex8()}function wu(){return Fi(this).formatHsl()}function Ei(){
return this.rgb().formatRgb()}function wt(t){var e,n;return t=(t+"").trim().toLowerCase(),(e=du.exec(t))?(n=e[1].length,e=parseInt(e[1],16),n===6?Ci(e):n===3?new Y(
e>>8&15|e>>4&240,e>>4&15|e&240,(e&15)<<4|e&15,1):n===8?Re(e>>24&255,e>>16&255,e>>8&255,(e&255)/255):n===4?Re(e>>12&15|e>>8&240,e>>8&15|e>>4&240,e>>4&15|e&240,((e&
15)<<4|e&15)/255):null):(e=mu.exec(t))?new Y(e[1],e[2],e[3],1):(e=pu.exec(t))?new Y(e[1]*255/100,e[2]*255/100,e[3]*255/100,1):(e=_u.exec(t))?Re(e[1],e[2],e[3],e[4]):
(e=gu.exec(t))?Re(e[1]*255/100,e[2]*255/100,e[3]*255/100,e[4]):(e=yu.exec(t))?Oi(e[1],e[2]/100,e[3]/100,1):(e=vu.exec(t))?Oi(e[1],e[2]/100,e[3]/100,e[4]):Si.hasOwnProperty(
t)?Ci(Si[t]):t==="transparent"?new Y(NaN,NaN,NaN,0):null}function Ci(t){return new Y(t>>16&255,t>>8&255,t&255,1)}function Re(t,e,n,r){return r<=0&&(t=e=n=NaN),new Y(
t,e,n,r)}function Wn(t){return t instanceof St||(t=wt(t)),t?(t=t.rgb(),new Y(t.r,t.g,t.b,t.opacity)):new Y}function he(t,e,n,r){return arguments.length===1?Wn(t):
new Y(t,e,n,r??1)}function Y(t,e,n,r){this.r=+t,this.g=+e,this.b=+n,this.opacity=+r}Xt(Y,he,fe(St,{brighter(t){return t=t==null?Wt:Math.pow(Wt,t),new Y(this.r*t,
this.g*t,this.b*t,this.opacity)},darker(t){return t=t==null?Dt:Math.pow(Dt,t),new Y(this.r*t,this.g*t,this.b*t,this.opacity)},rgb(){return this},clamp(){return new Y(
Rt(this.r),Rt(this.g),Rt(this.b),De(this.opacity))},displayable(){return-.5<=this.r&&this.r<255.5&&-.5<=this.g&&this.g<255.5&&-.5<=this.b&&this.b<255.5&&0<=this.
opacity&&this.opacity<=1},hex:Ii,formatHex:Ii,formatHex8:xu,formatRgb:Ti,toString:Ti}));function Ii(){return`#${zt(this.r)}${zt(this.g)}${zt(this.b)}`}function xu(){
return`#${zt(this.r)}${zt(this.g)}${zt(this.b)}${zt((isNaN(this.opacity)?1:this.opacity)*255)}`}function Ti(){let t=De(this.opacity);return`${t===1?"rgb(":"rgba\
("}${Rt(this.r)}, ${Rt(this.g)}, ${Rt(this.b)}${t===1?")":`, ${t})`}`}function De(t){return isNaN(t)?1:Math.max(0,Math.min(1,t))}function Rt(t){return Math.max(
0,Math.min(255,Math.round(t)||0))}function zt(t){return t=Rt(t),(t<16?"0":"")+t.toString(16)}function Oi(t,e,n,r){return r<=0?t=e=n=NaN:n<=0||n>=1?t=e=NaN:e<=0&&
(t=NaN),new ut(t,e,n,r)}function Fi(t){if(t instanceof ut)return new ut(t.h,t.s,t.l,t.opacity);if(t instanceof St||(t=wt(t)),!t)return new ut;if(t instanceof ut)
return t;t=t.rgb();var e=t.r/255,n=t.g/255,r=t.b/255,i=Math.min(e,n,r),o=Math.max(e,n,r),a=NaN,s=o-i,l=(o+i)/2;return s?(e===o?a=(n-r)/s+(n<r)*6:n===o?a=(r-e)/s+
2:a=(e-n)/s+4,s/=l<.5?o+i:2-o-i,a*=60):s=l>0&&l<1?0:a,new ut(a,s,l,t.opacity)}function Le(t,e,n,r){return arguments.length===1?Fi(t):new ut(t,e,n,r??1)}function ut(t,e,n,r){
this.h=+t,this.s=+e,this.l=+n,this.opacity=+r}Xt(ut,Le,fe(St,{brighter(t){return t=t==null?Wt:Math.pow(Wt,t),new ut(this.h,this.s,this.l*t,this.opacity)},darker(t){
return t=t==null?Dt:Math.pow(Dt,t),new ut(this.h,this.s,this.l*t,this.opacity)},rgb(){var t=this.h%360+(this.h<0)*360,e=isNaN(t)||isNaN(this.s)?0:this.s,n=this.
l,r=n+(n<.5?n:1-n)*e,i=2*n-r;return new Y(qn(t>=240?t-240:t+120,i,r),qn(t,i,r),qn(t<120?t+240:t-120,i,r),this.opacity)},clamp(){return new ut(zi(this.h),Pe(this.
s),Pe(this.l),De(this.opacity))},displayable(){return(0<=this.s&&this.s<=1||isNaN(this.s))&&0<=this.l&&this.l<=1&&0<=this.opacity&&this.opacity<=1},formatHsl(){
let t=De(this.opacity);return`${t===1?"hsl(":"hsla("}${zi(this.h)}, ${Pe(this.s)*100}%, ${Pe(this.l)*100}%${t===1?")":`, ${t})`}`}}));function zi(t){return t=(t||
0)%360,t<0?t+360:t}function Pe(t){return Math.max(0,Math.min(1,t||0))}function qn(t,e,n){return(t<60?e+(n-e)*t/60:t<180?n:t<240?e+(n-e)*(240-t)/60:e)*255}var Li=Math.
PI/180,qi=180/Math.PI,Fe=18,Hi=.96422,Bi=1,Ui=.82521,Vi=4/29,Vt=6/29,Wi=3*Vt*Vt,ku=Vt*Vt*Vt;function Xi(t){if(t instanceof ht)return new ht(t.l,t.a,t.b,t.opacity);
if(t instanceof bt)return Gi(t);t instanceof Y||(t=Wn(t));var e=Vn(t.r),n=Vn(t.g),r=Vn(t.b),i=Hn((.2225045*e+.7168786*n+.0606169*r)/Bi),o,a;return e===n&&n===r?
o=a=i:(o=Hn((.4360747*e+.3850649*n+.1430804*r)/Hi),a=Hn((.0139322*e+.0971045*n+.7141733*r)/Ui)),new ht(116*i-16,500*(o-i),200*(i-a),t.opacity)}function Yi(t,e,n,r){return arguments.length===1?Xi(t):new ht(t,e,n,r??1)}function ht(t,e,n,r){this.l=+t,this.a=+e,this.b=+n,this.opacity=+r}Xt(ht,Yi,fe(St,{brighter(t){
return new ht(this.l+Fe*(t??1),this.a,this.b,this.opacity)},darker(t){return new ht(this.l-Fe*(t??1),this.a,this.b,this.opacity)},rgb(){var t=(this.l+16)/116,e=isNaN(
this.a)?t:t+this.a/500,n=isNaN(this.b)?t:t-this.b/200;return e=Hi*Bn(e),t=Bi*Bn(t),n=Ui*Bn(n),new Y(Un(3.1338561*e-1.6168667*t-.4906146*n),Un(-.9787684*e+1.9161415*
t+.033454*n),Un(.0719453*e-.2289914*t+1.4052427*n),this.opacity)}}));function Hn(t){return t>ku?Math.pow(t,1/3):t/Wi+Vi}function Bn(t){return t>Vt?t*t*t:Wi*(t-Vi)}
function Un(t){return 255*(t<=.0031308?12.92*t:1.055*Math.pow(t,1/2.4)-.055)}function Vn(t){return(t/=255)<=.04045?t/12.92:Math.pow((t+.055)/1.055,2.4)}function Mu(t){
if(t instanceof bt)return new bt(t.h,t.c,t.l,t.opacity);if(t instanceof ht||(t=Xi(t)),t.a===0&&t.b===0)return new bt(NaN,0<t.l&&t.l<100?0:NaN,t.l,t.opacity);var e=Math.
atan2(t.b,t.a)*qi;return new bt(e<0?e+360:e,Math.sqrt(t.a*t.a+t.b*t.b),t.l,t.opacity)}function qe(t,e,n,r){return arguments.length===1?Mu(t):new bt(t,e,n,r??1)}function bt(t,e,n,r){this.h=+t,this.c=+e,this.l=+n,this.opacity=+r}function Gi(t){if(isNaN(
t.h))return new ht(t.l,0,0,t.opacity);var e=t.h*Li;return new ht(t.l,Math.cos(e)*t.c,Math.sin(e)*t.c,t.opacity)}Xt(bt,qe,fe(St,{brighter(t){return new bt(this.h,
this.c,this.l+Fe*(t??1),this.opacity)},darker(t){return new bt(this.h,this.c,this.l-Fe*(t??1),this.opacity)},rgb(){return Gi(this).rgb()}}));var Ki=-.14861,Xn=1.78277,
Yn=-.29227,He=-.90649,ce=1.97294,Ri=ce*He,Pi=ce*Xn,Di=Xn*Yn-He*Ki;function Nu(t){if(t instanceof Pt)return new Pt(t.h,t.s,t.l,t.opacity);t instanceof Y||(t=Wn(t));
var e=t.r/255,n=t.g/255,r=t.b/255,i=(Di*r+Ri*e-Pi*n)/(Di+Ri-Pi),o=r-i,a=(ce*(n-i)-Yn*o)/He,s=Math.sqrt(a*a+o*o)/(ce*i*(1-i)),l=s?Math.atan2(a,o)*qi-120:NaN;return new Pt(
l<0?l+360:l,s,i,t.opacity)}function Be(t,e,n,r){return arguments.length===1?Nu(t):new Pt(t,e,n,r??1)}function Pt(t,e,n,r){this.h=+t,this.s=+e,this.l=+n,this.opacity=
+r}Xt(Pt,Be,fe(St,{brighter(t){return t=t==null?Wt:Math.pow(Wt,t),new Pt(this.h,this.s,this.l*t,this.opacity)},darker(t){return t=t==null?Dt:Math.pow(Dt,t),new Pt(
this.h,this.s,this.l*t,this.opacity)},rgb(){var t=isNaN(this.h)?0:(this.h+120)*Li,e=+this.l,n=isNaN(this.s)?0:this.s*e*(1-e),r=Math.cos(t),i=Math.sin(t);return new Y(
255*(e+n*(Ki*r+Xn*i)),255*(e+n*(Yn*r+He*i)),255*(e+n*(ce*r)),this.opacity)}}));function Ji(t,e,n,r,i){var o=t*t,a=o*t;return((1-3*t+3*o-a)*e+(4-6*o+3*a)*n+(1+3*t+3*o-3*a)*r+a*i)/6}function $u(t){var e=t.length-1;return function(n){var r=n<=
0?n=0:n>=1?(n=1,e-1):Math.floor(n*e),i=t[r],o=t[r+1],a=r>0?t[r-1]:2*i-o,s=r<e-1?t[r+2]:2*o-i;return Ji((n-r/e)*e,a,i,o,s)}}function Su(t){var e=t.length;return function(n){
var r=Math.floor(((n%=1)<0?++n:n)*e),i=t[(r+e-1)%e],o=t[r%e],a=t[(r+1)%e],s=t[(r+2)%e];return Ji((n-r/e)*e,i,o,a,s)}}var Ve=t=>()=>t;function ji(t,e){return function(n){
return t+n*e}}function Au(t,e,n){return t=Math.pow(t,n),e=Math.pow(e,n)-t,n=1/n,function(r){return Math.pow(t+r*e,n)}}function Zn(t,e){var n=e-t;return n?ji(t,n>
180||n<-180?n-360*Math.round(n/360):n):Ve(isNaN(t)?e:t)}function Eu(t){return(t=+t)==1?tt:function(e,n){return n-e?Au(e,n,t):Ve(isNaN(e)?n:e)}}function tt(t,e){
var n=e-t;return n?ji(t,n):Ve(isNaN(t)?e:t)}var de=(function t(e){var n=Eu(e);function r(i,o){var a=n((i=he(i)).r,(o=he(o)).r),s=n(i.g,o.g),l=n(i.b,o.b),u=tt(i.
opacity,o.opacity);return function(h){return i.r=a(h),i.g=s(h),i.b=l(h),i.opacity=u(h),i+""}}return r.gamma=t,r})(1);function to(t){return function(e){var n=e.length,
r=new Array(n),i=new Array(n),o=new Array(n),a,s;for(a=0;a<n;++a)s=he(e[a]),r[a]=s.r||0,i[a]=s.g||0,o[a]=s.b||0;return r=t(r),i=t(i),o=t(o),s.opacity=1,function(l){
return s.r=r(l),s.g=i(l),s.b=o(l),s+""}}}var Vf=to($u),Wf=to(Su);function Cu(t,e){e||(e=[]);var n=t?Math.min(e.length,t.length):0,r=e.slice(),i;return function(o){
for(i=0;i<n;++i)r[i]=t[i]*(1-o)+e[i]*o;return r}}function Iu(t){return ArrayBuffer.isView(t)&&!(t instanceof DataView)}function Tu(t,e){var n=e?e.length:0,r=t?Math.min(n,t.length):0,i=new Array(r),o=new Array(n),a;for(a=0;a<r;++a)i[a]=We(t[a],e[a]);for(;a<n;++a)o[a]=e[a];return function(s){
for(a=0;a<r;++a)o[a]=i[a](s);return o}}function Ou(t,e){var n=new Date;return t=+t,e=+e,function(r){return n.setTime(t*(1-r)+e*r),n}}function nt(t,e){return t=+t,
e=+e,function(n){return t*(1-n)+e*n}}function zu(t,e){var n={},r={},i;(t===null||typeof t!="object")&&(t={}),(e===null||typeof e!="object")&&(e={});for(i in e)i in
t?n[i]=We(t[i],e[i]):r[i]=e[i];return function(o){for(i in n)r[i]=n[i](o);return r}}var Kn=/[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g,Gn=new RegExp(Kn.source,
"g");function Ru(t){return function(){return t}}function Pu(t){return function(e){return t(e)+""}}function Jn(t,e){var n=Kn.lastIndex=Gn.lastIndex=0,r,i,o,a=-1,
s=[],l=[];for(t=t+"",e=e+"";(r=Kn.exec(t))&&(i=Gn.exec(e));)(o=i.index)>n&&(o=e.slice(n,o),s[a]?s[a]+=o:s[++a]=o),(r=r[0])===(i=i[0])?s[a]?s[a]+=i:s[++a]=i:(s[++a]=
null,l.push({i:a,x:nt(r,i)})),n=Gn.lastIndex;return n<e.length&&(o=e.slice(n),s[a]?s[a]+=o:s[++a]=o),s.length<2?l[0]?Pu(l[0].x):Ru(e):(e=l.length,function(u){for(var h=0,
m;h<e;++h)s[(m=l[h]).i]=m.x(u);return s.join("")})}function We(t,e){var n=typeof e,r;return e==null||n==="boolean"?Ve(e):(n==="number"?nt:n==="string"?(r=wt(e))?
(e=r,de):Jn:e instanceof wt?de:e instanceof Date?Ou:Iu(e)?Cu:Array.isArray(e)?Tu:typeof e.valueOf!="function"&&typeof e.toString!="function"||isNaN(e)?zu:nt)(t,
e)}function eo(t,e){return t=+t,e=+e,function(n){return Math.round(t*(1-n)+e*n)}}var Qi=180/Math.PI,Qn={translateX:0,translateY:0,rotate:0,skewX:0,scaleX:1,scaleY:1};
function no(t,e,n,r,i,o){var a,s,l;return(a=Math.sqrt(t*t+e*e))&&(t/=a,e/=a),(l=t*n+e*r)&&(n-=t*l,r-=e*l),(s=Math.sqrt(n*n+r*r))&&(n/=s,r/=s,l/=s),t*r<e*n&&(t=-t,
e=-e,l=-l,a=-a),{translateX:i,translateY:o,rotate:Math.atan2(e,t)*Qi,skewX:Math.atan(l)*Qi,scaleX:a,scaleY:s}}var Ue;function Du(t){let e=new(typeof DOMMatrix==
"function"?DOMMatrix:WebKitCSSMatrix)(t+"");return e.isIdentity?Qn:no(e.a,e.b,e.c,e.d,e.e,e.f)}function Fu(t){return t==null||(Ue||(Ue=document.createElementNS(
"http://www.w3.org/2000/svg","g")),Ue.setAttribute("transform",t),!(t=Ue.transform.baseVal.consolidate()))?Qn:(t=t.matrix,no(t.a,t.b,t.c,t.d,t.e,t.f))}function ro(t,e,n,r){
function i(u){return u.length?u.pop()+" ":""}function o(u,h,m,f,d,_){if(u!==m||h!==f){var v=d.push("translate(",null,e,null,n);_.push({i:v-4,x:nt(u,m)},{i:v-2,x:nt(
h,f)})}else(m||f)&&d.push("translate("+m+e+f+n)}function a(u,h,m,f){u!==h?(u-h>180?h+=360:h-u>180&&(u+=360),f.push({i:m.push(i(m)+"rotate(",null,r)-2,x:nt(u,h)})):
h&&m.push(i(m)+"rotate("+h+r)}function s(u,h,m,f){u!==h?f.push({i:m.push(i(m)+"skewX(",null,r)-2,x:nt(u,h)}):h&&m.push(i(m)+"skewX("+h+r)}function l(u,h,m,f,d,_){
if(u!==m||h!==f){var v=d.push(i(d)+"scale(",null,",",null,")");_.push({i:v-4,x:nt(u,m)},{i:v-2,x:nt(h,f)})}else(m!==1||f!==1)&&d.push(i(d)+"scale("+m+","+f+")")}
return function(u,h){var m=[],f=[];return u=t(u),h=t(h),o(u.translateX,u.translateY,h.translateX,h.translateY,m,f),a(u.rotate,h.rotate,m,f),s(u.skewX,h.skewX,m,
f),l(u.scaleX,u.scaleY,h.scaleX,h.scaleY,m,f),u=h=null,function(d){for(var _=-1,v=f.length,b;++_<v;)m[(b=f[_]).i]=b.x(d);return m.join("")}}}var io=ro(Du,"px, ",
"px)","deg)"),oo=ro(Fu,", ",")",")"),Lu=1e-12;function Zi(t){return((t=Math.exp(t))+1/t)/2}function qu(t){return((t=Math.exp(t))-1/t)/2}function Hu(t){return((t=
Math.exp(2*t))-1)/(t+1)}var ao=(function t(e,n,r){function i(o,a){var s=o[0],l=o[1],u=o[2],h=a[0],m=a[1],f=a[2],d=h-s,_=m-l,v=d*d+_*_,b,g;if(v<Lu)g=Math.log(f/u)/
e,b=function(L){return[s+L*d,l+L*_,u*Math.exp(e*L*g)]};else{var M=Math.sqrt(v),w=(f*f-u*u+r*v)/(2*u*n*M),$=(f*f-u*u-r*v)/(2*f*n*M),R=Math.log(Math.sqrt(w*w+1)-w),
I=Math.log(Math.sqrt($*$+1)-$);g=(I-R)/e,b=function(L){var Q=L*g,J=Zi(R),H=u/(n*M)*(J*Hu(e*Q+R)-qu(R));return[s+H*d,l+H*_,u*J/Zi(e*Q+R)]}}return b.duration=Math.
abs(g)*1e3*e/Math.SQRT2,b}return i.rho=function(o){var a=Math.max(.001,+o),s=a*a,l=s*s;return t(a,s,l)},i})(Math.SQRT2,2,4);function so(t){return function(e,n){
var r=t((e=Le(e)).h,(n=Le(n)).h),i=tt(e.s,n.s),o=tt(e.l,n.l),a=tt(e.opacity,n.opacity);return function(s){return e.h=r(s),e.s=i(s),e.l=o(s),e.opacity=a(s),e+""}}}
var Xf=so(Zn),Yf=so(tt);function uo(t){return function(e,n){var r=t((e=qe(e)).h,(n=qe(n)).h),i=tt(e.c,n.c),o=tt(e.l,n.l),a=tt(e.opacity,n.opacity);return function(s){return e.h=r(s),e.
c=i(s),e.l=o(s),e.opacity=a(s),e+""}}}var Gf=uo(Zn),Kf=uo(tt);function lo(t){return(function e(n){n=+n;function r(i,o){var a=t((i=Be(i)).h,(o=Be(o)).h),s=tt(i.s,
o.s),l=tt(i.l,o.l),u=tt(i.opacity,o.opacity);return function(h){return i.h=a(h),i.s=s(h),i.l=l(Math.pow(h,n)),i.opacity=u(h),i+""}}return r.gamma=e,r})(1)}var Qf=lo(
Zn),Zf=lo(tt);var Yt=0,pe=0,me=0,fo=1e3,Xe,_e,Ye=0,Ft=0,Ke=0,ge=typeof performance=="object"&&performance.now?performance:Date,ho=typeof window=="object"&&window.requestAnimationFrame?
window.requestAnimationFrame.bind(window):function(t){setTimeout(t,17)};function Qe(){return Ft||(ho(Bu),Ft=ge.now()+Ke)}function Bu(){Ft=0}function Ge(){this._call=
this._time=this._next=null}Ge.prototype=tr.prototype={constructor:Ge,restart:function(t,e,n){if(typeof t!="function")throw new TypeError("callback is not a func\
tion");n=(n==null?Qe():+n)+(e==null?0:+e),!this._next&&_e!==this&&(_e?_e._next=this:Xe=this,_e=this),this._call=t,this._time=n,jn()},stop:function(){this._call&&
(this._call=null,this._time=1/0,jn())}};function tr(t,e,n){var r=new Ge;return r.restart(t,e,n),r}function Uu(){Qe(),++Yt;for(var t=Xe,e;t;)(e=Ft-t._time)>=0&&t.
_call.call(void 0,e),t=t._next;--Yt}function co(){Ft=(Ye=ge.now())+Ke,Yt=pe=0;try{Uu()}finally{Yt=0,Wu(),Ft=0}}function Vu(){var t=ge.now(),e=t-Ye;e>fo&&(Ke-=e,
Ye=t)}function Wu(){for(var t,e=Xe,n,r=1/0;e;)e._call?(r>e._time&&(r=e._time),t=e,e=e._next):(n=e._next,e._next=null,e=t?t._next=n:Xe=n);_e=t,jn(r)}function jn(t){
if(!Yt){pe&&(pe=clearTimeout(pe));var e=t-Ft;e>24?(t<1/0&&(pe=setTimeout(co,Math.ceil(t-ge.now()-Ke)+1)),me&&(me=clearInterval(me))):(me||(Ye=ge.now(),me=setInterval(
Vu,fo)),Yt=1,ho(co))}}function er(t,e,n){var r=new Ge;return e=e==null?0:+e,r.restart(i=>{r.stop(),t(i+e)},e,n),r}function po(t){return((t*=2)<=1?t*t*t:(t-=2)*t*t+2)/2}var nr=3,th=(function t(e){e=+e;function n(r){return Math.pow(r,e)}return n.exponent=t,n})(nr),eh=(function t(e){
e=+e;function n(r){return 1-Math.pow(1-r,e)}return n.exponent=t,n})(nr),nh=(function t(e){e=+e;function n(r){return((r*=2)<=1?Math.pow(r,e):2-Math.pow(2-r,e))/2}
return n.exponent=t,n})(nr),Xu=Math.PI,rh=Xu/2;function Ze(t){return(Math.pow(2,-10*t)-.0009765625)*1.0009775171065494}var mo=4/11,ih=6/11,oh=8/11,ah=3/4,sh=9/11,uh=10/11,lh=15/16,ch=21/22,fh=63/64,hh=1/mo/mo;var rr=1.70158,dh=(function t(e){e=+e;function n(r){return(r=+r)*r*(e*(r-1)+r)}return n.overshoot=t,n})(rr),mh=(function t(e){e=+e;function n(r){return--r*r*((r+
1)*e+r)+1}return n.overshoot=t,n})(rr),ph=(function t(e){e=+e;function n(r){return((r*=2)<1?r*r*((e+1)*r-e):(r-=2)*r*((e+1)*r+e)+2)/2}return n.overshoot=t,n})(rr),
Gt=2*Math.PI,ir=1,or=.3,_h=(function t(e,n){var r=Math.asin(1/(e=Math.max(1,e)))*(n/=Gt);function i(o){return e*Ze(- --o)*Math.sin((r-o)/n)}return i.amplitude=function(o){
return t(o,n*Gt)},i.period=function(o){return t(e,o)},i})(ir,or),gh=(function t(e,n){var r=Math.asin(1/(e=Math.max(1,e)))*(n/=Gt);function i(o){return 1-e*Ze(o=
+o)*Math.sin((o+r)/n)}return i.amplitude=function(o){return t(o,n*Gt)},i.period=function(o){return t(e,o)},i})(ir,or),yh=(function t(e,n){var r=Math.asin(1/(e=Math.
max(1,e)))*(n/=Gt);function i(o){return((o=o*2-1)<0?e*Ze(-o)*Math.sin((r-o)/n):2-e*Ze(o)*Math.sin((r+o)/n))/2}return i.amplitude=function(o){return t(o,n*Gt)},i.
period=function(o){return t(e,o)},i})(ir,or);var Yu=ue("start","end","cancel","interrupt"),Gu=[],yo=0,_o=1,ar=2,Je=3,go=4,sr=5,je=6;function tn(t,e,n,r,i,o){var a=t.__transition;if(!a)t.__transition={};else if(n in
a)return;Ku(t,n,{name:e,index:r,group:i,on:Yu,tween:Gu,time:o.time,delay:o.delay,duration:o.duration,ease:o.ease,timer:null,state:yo})}function ur(t,e){var n=lt(
t,e);if(n.state>yo)throw new Error("too late; already scheduled");return n}function dt(t,e){var n=lt(t,e);if(n.state>Je)throw new Error("too late; already runni\
ng");return n}function lt(t,e){var n=t.__transition;if(!n||!(n=n[e]))throw new Error("transition not found");return n}function Ku(t,e,n){var r=t.__transition,i;
r[e]=n,n.timer=tr(o,0,n.time);function o(u){n.state=_o,n.timer.restart(a,n.delay,n.time),n.delay<=u&&a(u-n.delay)}function a(u){var h,m,f,d;if(n.state!==_o)return l();
for(h in r)if(d=r[h],d.name===n.name){if(d.state===Je)return er(a);d.state===go?(d.state=je,d.timer.stop(),d.on.call("interrupt",t,t.__data__,d.index,d.group),delete r[h]):
+h<e&&(d.state=je,d.timer.stop(),d.on.call("cancel",t,t.__data__,d.index,d.group),delete r[h])}if(er(function(){n.state===Je&&(n.state=go,n.timer.restart(s,n.delay,
n.time),s(u))}),n.state=ar,n.on.call("start",t,t.__data__,n.index,n.group),n.state===ar){for(n.state=Je,i=new Array(f=n.tween.length),h=0,m=-1;h<f;++h)(d=n.tween[h].
value.call(t,t.__data__,n.index,n.group))&&(i[++m]=d);i.length=m+1}}function s(u){for(var h=u<n.duration?n.ease.call(null,u/n.duration):(n.timer.restart(l),n.state=
sr,1),m=-1,f=i.length;++m<f;)i[m].call(t,h);n.state===sr&&(n.on.call("end",t,t.__data__,n.index,n.group),l())}function l(){n.state=je,n.timer.stop(),delete r[e];
for(var u in r)return;delete t.__transition}}function ye(t,e){var n=t.__transition,r,i,o=!0,a;if(n){e=e==null?null:e+"";for(a in n){if((r=n[a]).name!==e){o=!1;continue}
i=r.state>ar&&r.state<sr,r.state=je,r.timer.stop(),r.on.call(i?"interrupt":"cancel",t,t.__data__,r.index,r.group),delete n[a]}o&&delete t.__transition}}function Qu(t){
return this.each(function(){ye(this,t)})}function Zu(t,e){var n,r;return function(){var i=dt(this,t),o=i.tween;if(o!==n){r=n=o;for(var a=0,s=r.length;a<s;++a)if(r[a].
name===e){r=r.slice(),r.splice(a,1);break}}i.tween=r}}function Ju(t,e,n){var r,i;if(typeof n!="function")throw new Error;return function(){var o=dt(this,t),a=o.
tween;if(a!==r){i=(r=a).slice();for(var s={name:e,value:n},l=0,u=i.length;l<u;++l)if(i[l].name===e){i[l]=s;break}l===u&&i.push(s)}o.tween=i}}function ju(t,e){var n=this.
_id;if(t+="",arguments.length<2){for(var r=lt(this.node(),n).tween,i=0,o=r.length,a;i<o;++i)if((a=r[i]).name===t)return a.value;return null}return this.each((e==
null?Zu:Ju)(n,t,e))}function lr(t,e,n){var r=t._id;return t.each(function(){var i=dt(this,r);(i.value||(i.value={}))[e]=n.apply(this,arguments)}),function(i){return lt(
i,r).value[e]}}function vo(t,e){var n;return(typeof e=="number"?nt:e instanceof wt?de:(n=wt(e))?(e=n,de):Jn)(t,e)}function tl(t){return function(){this.removeAttribute(
t)}}function el(t){return function(){this.removeAttributeNS(t.space,t.local)}}function nl(t,e,n){var r,i=n+"",o;return function(){var a=this.getAttribute(t);return a===
i?null:a===r?o:o=e(r=a,n)}}function rl(t,e,n){var r,i=n+"",o;return function(){var a=this.getAttributeNS(t.space,t.local);return a===i?null:a===r?o:o=e(r=a,n)}}
function il(t,e,n){var r,i,o;return function(){var a,s=n(this),l;return s==null?void this.removeAttribute(t):(a=this.getAttribute(t),l=s+"",a===l?null:a===r&&l===
i?o:(i=l,o=e(r=a,s)))}}function ol(t,e,n){var r,i,o;return function(){var a,s=n(this),l;return s==null?void this.removeAttributeNS(t.space,t.local):(a=this.getAttributeNS(
t.space,t.local),l=s+"",a===l?null:a===r&&l===i?o:(i=l,o=e(r=a,s)))}}function al(t,e){var n=se(t),r=n==="transform"?oo:vo;return this.attrTween(t,typeof e=="fun\
ction"?(n.local?ol:il)(n,r,lr(this,"attr."+t,e)):e==null?(n.local?el:tl)(n):(n.local?rl:nl)(n,r,e))}function sl(t,e){return function(n){this.setAttribute(t,e.call(
this,n))}}function ul(t,e){return function(n){this.setAttributeNS(t.space,t.local,e.call(this,n))}}function ll(t,e){var n,r;function i(){var o=e.apply(this,arguments);
return o!==r&&(n=(r=o)&&ul(t,o)),n}return i._value=e,i}function cl(t,e){var n,r;function i(){var o=e.apply(this,arguments);return o!==r&&(n=(r=o)&&sl(t,o)),n}return i.
_value=e,i}function fl(t,e){var n="attr."+t;if(arguments.length<2)return(n=this.tween(n))&&n._value;if(e==null)return this.tween(n,null);if(typeof e!="function")
throw new Error;var r=se(t);return this.tween(n,(r.local?ll:cl)(r,e))}function hl(t,e){return function(){ur(this,t).delay=+e.apply(this,arguments)}}function dl(t,e){
return e=+e,function(){ur(this,t).delay=e}}function ml(t){var e=this._id;return arguments.length?this.each((typeof t=="function"?hl:dl)(e,t)):lt(this.node(),e).
delay}function pl(t,e){return function(){dt(this,t).duration=+e.apply(this,arguments)}}function _l(t,e){return e=+e,function(){dt(this,t).duration=e}}function gl(t){
var e=this._id;return arguments.length?this.each((typeof t=="function"?pl:_l)(e,t)):lt(this.node(),e).duration}function yl(t,e){if(typeof e!="function")throw new Error;
return function(){dt(this,t).ease=e}}function vl(t){var e=this._id;return arguments.length?this.each(yl(e,t)):lt(this.node(),e).ease}function bl(t,e){return function(){
var n=e.apply(this,arguments);if(typeof n!="function")throw new Error;dt(this,t).ease=n}}function wl(t){if(typeof t!="function")throw new Error;return this.each(
bl(this._id,t))}function xl(t){typeof t!="function"&&(t=Pn(t));for(var e=this._groups,n=e.length,r=new Array(n),i=0;i<n;++i)for(var o=e[i],a=o.length,s=r[i]=[],
l,u=0;u<a;++u)(l=o[u])&&t.call(l,l.__data__,u,o)&&s.push(l);return new kt(r,this._parents,this._name,this._id)}function kl(t){if(t._id!==this._id)throw new Error;
for(var e=this._groups,n=t._groups,r=e.length,i=n.length,o=Math.min(r,i),a=new Array(r),s=0;s<o;++s)for(var l=e[s],u=n[s],h=l.length,m=a[s]=new Array(h),f,d=0;d<
h;++d)(f=l[d]||u[d])&&(m[d]=f);for(;s<r;++s)a[s]=e[s];return new kt(a,this._parents,this._name,this._id)}function Ml(t){return(t+"").trim().split(/^|\s+/).every(
function(e){var n=e.indexOf(".");return n>=0&&(e=e.slice(0,n)),!e||e==="start"})}function Nl(t,e,n){var r,i,o=Ml(e)?ur:dt;return function(){var a=o(this,t),s=a.
on;s!==r&&(i=(r=s).copy()).on(e,n),a.on=i}}function $l(t,e){var n=this._id;return arguments.length<2?lt(this.node(),n).on.on(t):this.each(Nl(n,t,e))}function Sl(t){
return function(){var e=this.parentNode;for(var n in this.__transition)if(+n!==t)return;e&&e.removeChild(this)}}function Al(){return this.on("end.remove",Sl(this.
_id))}function El(t){var e=this._name,n=this._id;typeof t!="function"&&(t=Oe(t));for(var r=this._groups,i=r.length,o=new Array(i),a=0;a<i;++a)for(var s=r[a],l=s.
length,u=o[a]=new Array(l),h,m,f=0;f<l;++f)(h=s[f])&&(m=t.call(h,h.__data__,f,s))&&("__data__"in h&&(m.__data__=h.__data__),u[f]=m,tn(u[f],e,n,f,u,lt(h,n)));return new kt(
o,this._parents,e,n)}function Cl(t){var e=this._name,n=this._id;typeof t!="function"&&(t=Rn(t));for(var r=this._groups,i=r.length,o=[],a=[],s=0;s<i;++s)for(var l=r[s],
u=l.length,h,m=0;m<u;++m)if(h=l[m]){for(var f=t.call(h,h.__data__,m,l),d,_=lt(h,n),v=0,b=f.length;v<b;++v)(d=f[v])&&tn(d,e,n,v,f,_);o.push(f),a.push(h)}return new kt(
o,a,e,n)}var Il=Ot.prototype.constructor;function Tl(){return new Il(this._groups,this._parents)}function Ol(t,e){var n,r,i;return function(){var o=Tt(this,t),a=(this.
style.removeProperty(t),Tt(this,t));return o===a?null:o===n&&a===r?i:i=e(n=o,r=a)}}function bo(t){return function(){this.style.removeProperty(t)}}function zl(t,e,n){
var r,i=n+"",o;return function(){var a=Tt(this,t);return a===i?null:a===r?o:o=e(r=a,n)}}function Rl(t,e,n){var r,i,o;return function(){var a=Tt(this,t),s=n(this),
l=s+"";return s==null&&(l=s=(this.style.removeProperty(t),Tt(this,t))),a===l?null:a===r&&l===i?o:(i=l,o=e(r=a,s))}}function Pl(t,e){var n,r,i,o="style."+e,a="en\
d."+o,s;return function(){var l=dt(this,t),u=l.on,h=l.value[o]==null?s||(s=bo(e)):void 0;(u!==n||i!==h)&&(r=(n=u).copy()).on(a,i=h),l.on=r}}function Dl(t,e,n){var r=(t+=
"")=="transform"?io:vo;return e==null?this.styleTween(t,Ol(t,r)).on("end.style."+t,bo(t)):typeof e=="function"?this.styleTween(t,Rl(t,r,lr(this,"style."+t,e))).
each(Pl(this._id,t)):this.styleTween(t,zl(t,r,e),n).on("end.style."+t,null)}function Fl(t,e,n){return function(r){this.style.setProperty(t,e.call(this,r),n)}}function Ll(t,e,n){
var r,i;function o(){var a=e.apply(this,arguments);return a!==i&&(r=(i=a)&&Fl(t,a,n)),r}return o._value=e,o}function ql(t,e,n){var r="style."+(t+="");if(arguments.
length<2)return(r=this.tween(r))&&r._value;if(e==null)return this.tween(r,null);if(typeof e!="function")throw new Error;return this.tween(r,Ll(t,e,n??""))}function Hl(t){
return function(){this.textContent=t}}function Bl(t){return function(){var e=t(this);this.textContent=e??""}}function Ul(t){return this.tween("text",typeof t=="\
function"?Bl(lr(this,"text",t)):Hl(t==null?"":t+""))}function Vl(t){return function(e){this.textContent=t.call(this,e)}}function Wl(t){var e,n;function r(){var i=t.
apply(this,arguments);return i!==n&&(e=(n=i)&&Vl(i)),e}return r._value=t,r}function Xl(t){var e="text";if(arguments.length<1)return(e=this.tween(e))&&e._value;if(t==
null)return this.tween(e,null);if(typeof t!="function")throw new Error;return this.tween(e,Wl(t))}function Yl(){for(var t=this._name,e=this._id,n=wo(),r=this._groups,
i=r.length,o=0;o<i;++o)for(var a=r[o],s=a.length,l,u=0;u<s;++u)if(l=a[u]){var h=lt(l,e);tn(l,t,n,u,a,{time:h.time+h.delay+h.duration,delay:0,duration:h.duration,
ease:h.ease})}return new kt(r,this._parents,t,n)}function Gl(){var t,e,n=this,r=n._id,i=n.size();return new Promise(function(o,a){var s={value:a},l={value:function(){
--i===0&&o()}};n.each(function(){var u=dt(this,r),h=u.on;h!==t&&(e=(t=h).copy(),e._.cancel.push(s),e._.interrupt.push(s),e._.end.push(l)),u.on=e}),i===0&&o()})}
var Kl=0;function kt(t,e,n,r){this._groups=t,this._parents=e,this._name=n,this._id=r}function Ql(t){return Ot().transition(t)}function wo(){return++Kl}var xt=Ot.
prototype;kt.prototype=Ql.prototype={constructor:kt,select:El,selectAll:Cl,selectChild:xt.selectChild,selectChildren:xt.selectChildren,filter:xl,merge:kl,selection:Tl,
transition:Yl,call:xt.call,nodes:xt.nodes,node:xt.node,size:xt.size,empty:xt.empty,each:xt.each,on:$l,attr:al,attrTween:fl,style:Dl,styleTween:ql,text:Ul,textTween:Xl,
remove:Al,tween:ju,delay:ml,duration:gl,ease:vl,easeVarying:wl,end:Gl,[Symbol.iterator]:xt[Symbol.iterator]};var Zl={time:null,delay:0,duration:250,ease:po};function Jl(t,e){
for(var n;!(n=t.__transition)||!(n=n[e]);)if(!(t=t.parentNode))throw new Error(`transition ${e} not found`);return n}function jl(t){var e,n;t instanceof kt?(e=t.
_id,t=t._name):(e=wo(),(n=Zl).time=Qe(),t=t==null?null:t+"");for(var r=this._groups,i=r.length,o=0;o<i;++o)for(var a=r[o],s=a.length,l,u=0;u<s;++u)(l=a[u])&&tn(
l,t,e,u,a,n||Jl(l,e));return new kt(r,this._parents,t,e)}Ot.prototype.interrupt=Qu;Ot.prototype.transition=jl;var en=t=>()=>t;function tc(t,{sourceEvent:e,target:n,transform:r,dispatch:i}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},sourceEvent:{
value:e,enumerable:!0,configurable:!0},target:{value:n,enumerable:!0,configurable:!0},transform:{value:r,enumerable:!0,configurable:!0},_:{value:i}})}function Mt(t,e,n){
this.k=t,this.x=e,this.y=n}Mt.prototype={constructor:Mt,scale:function(t){return t===1?this:new Mt(this.k*t,this.x,this.y)},translate:function(t,e){return t===0&
e===0?this:new Mt(this.k,this.x+this.k*t,this.y+this.k*e)},apply:function(t){return[t[0]*this.k+this.x,t[1]*this.k+this.y]},applyX:function(t){return t*this.k+this.
x},applyY:function(t){return t*this.k+this.y},invert:function(t){return[(t[0]-this.x)/this.k,(t[1]-this.y)/this.k]},invertX:function(t){return(t-this.x)/this.k},
invertY:function(t){return(t-this.y)/this.k},rescaleX:function(t){return t.copy().domain(t.range().map(this.invertX,this).map(t.invert,t))},rescaleY:function(t){
return t.copy().domain(t.range().map(this.invertY,this).map(t.invert,t))},toString:function(){return"translate("+this.x+","+this.y+") scale("+this.k+")"}};var Lt=new Mt(
1,0,0);ec.prototype=Mt.prototype;function ec(t){for(;!t.__zoom;)if(!(t=t.parentNode))return Lt;return t.__zoom}function cr(t){t.stopImmediatePropagation()}function ve(t){
t.preventDefault(),t.stopImmediatePropagation()}function nc(t){return(!t.ctrlKey||t.type==="wheel")&&!t.button}function rc(){var t=this;return t instanceof SVGElement?
(t=t.ownerSVGElement||t,t.hasAttribute("viewBox")?(t=t.viewBox.baseVal,[[t.x,t.y],[t.x+t.width,t.y+t.height]]):[[0,0],[t.width.baseVal.value,t.height.baseVal.value]]):
[[0,0],[t.clientWidth,t.clientHeight]]}function xo(){return this.__zoom||Lt}function ic(t){return-t.deltaY*(t.deltaMode===1?.05:t.deltaMode?1:.002)*(t.ctrlKey?10:
1)}function oc(){return navigator.maxTouchPoints||"ontouchstart"in this}function ac(t,e,n){var r=t.invertX(e[0][0])-n[0][0],i=t.invertX(e[1][0])-n[1][0],o=t.invertY(
e[0][1])-n[0][1],a=t.invertY(e[1][1])-n[1][1];return t.translate(i>r?(r+i)/2:Math.min(0,r)||Math.max(0,i),a>o?(o+a)/2:Math.min(0,o)||Math.max(0,a))}function ko(){
var t=nc,e=rc,n=ac,r=ic,i=oc,o=[0,1/0],a=[[-1/0,-1/0],[1/0,1/0]],s=250,l=ao,u=ue("start","zoom","end"),h,m,f,d=500,_=150,v=0,b=10;function g(p){p.property("__zo\
om",xo).on("wheel.zoom",Q,{passive:!1}).on("mousedown.zoom",J).on("dblclick.zoom",H).filter(i).on("touchstart.zoom",j).on("touchmove.zoom",O).on("touchend.zoom \
touchcancel.zoom",mt).style("-webkit-tap-highlight-color","rgba(0,0,0,0)")}g.transform=function(p,x,y,k){var A=p.selection?p.selection():p;A.property("__zoom",xo),
p!==A?R(p,x,y,k):A.interrupt().each(function(){I(this,arguments).event(k).start().zoom(null,typeof x=="function"?x.apply(this,arguments):x).end()})},g.scaleBy=function(p,x,y,k){
g.scaleTo(p,function(){var A=this.__zoom.k,C=typeof x=="function"?x.apply(this,arguments):x;return A*C},y,k)},g.scaleTo=function(p,x,y,k){g.transform(p,function(){
var A=e.apply(this,arguments),C=this.__zoom,E=y==null?$(A):typeof y=="function"?y.apply(this,arguments):y,F=C.invert(E),B=typeof x=="function"?x.apply(this,arguments):
x;return n(w(M(C,B),E,F),A,a)},y,k)},g.translateBy=function(p,x,y,k){g.transform(p,function(){return n(this.__zoom.translate(typeof x=="function"?x.apply(this,arguments):
x,typeof y=="function"?y.apply(this,arguments):y),e.apply(this,arguments),a)},null,k)},g.translateTo=function(p,x,y,k,A){g.transform(p,function(){var C=e.apply(
this,arguments),E=this.__zoom,F=k==null?$(C):typeof k=="function"?k.apply(this,arguments):k;return n(Lt.translate(F[0],F[1]).scale(E.k).translate(typeof x=="fun\
ction"?-x.apply(this,arguments):-x,typeof y=="function"?-y.apply(this,arguments):-y),C,a)},k,A)};function M(p,x){return x=Math.max(o[0],Math.min(o[1],x)),x===p.
k?p:new Mt(x,p.x,p.y)}function w(p,x,y){var k=x[0]-y[0]*p.k,A=x[1]-y[1]*p.k;return k===p.x&&A===p.y?p:new Mt(p.k,k,A)}function $(p){return[(+p[0][0]+ +p[1][0])/
2,(+p[0][1]+ +p[1][1])/2]}function R(p,x,y,k){p.on("start.zoom",function(){I(this,arguments).event(k).start()}).on("interrupt.zoom end.zoom",function(){I(this,arguments).
event(k).end()}).tween("zoom",function(){var A=this,C=arguments,E=I(A,C).event(k),F=e.apply(A,C),B=y==null?$(F):typeof y=="function"?y.apply(A,C):y,ct=Math.max(
F[1][0]-F[0][0],F[1][1]-F[0][1]),G=A.__zoom,rt=typeof x=="function"?x.apply(A,C):x,pt=l(G.invert(B).concat(ct/G.k),rt.invert(B).concat(ct/rt.k));return function(it){
if(it===1)it=rt;else{var _t=pt(it),vn=ct/_t[2];it=new Mt(vn,B[0]-_t[0]*vn,B[1]-_t[1]*vn)}E.zoom(null,it)}})}function I(p,x,y){return!y&&p.__zooming||new L(p,x)}
function L(p,x){this.that=p,this.args=x,this.active=0,this.sourceEvent=null,this.extent=e.apply(p,x),this.taps=0}L.prototype={event:function(p){return p&&(this.
sourceEvent=p),this},start:function(){return++this.active===1&&(this.that.__zooming=this,this.emit("start")),this},zoom:function(p,x){return this.mouse&&p!=="mo\
use"&&(this.mouse[1]=x.invert(this.mouse[0])),this.touch0&&p!=="touch"&&(this.touch0[1]=x.invert(this.touch0[0])),this.touch1&&p!=="touch"&&(this.touch1[1]=x.invert(
this.touch1[0])),this.that.__zoom=x,this.emit("zoom"),this},end:function(){return--this.active===0&&(delete this.that.__zooming,this.emit("end")),this},emit:function(p){
var x=Z(this.that).datum();u.call(p,this.that,new tc(p,{sourceEvent:this.sourceEvent,target:g,transform:this.that.__zoom,dispatch:u}),x)}};function Q(p,...x){if(!t.
apply(this,arguments))return;var y=I(this,x).event(p),k=this.__zoom,A=Math.max(o[0],Math.min(o[1],k.k*Math.pow(2,r.apply(this,arguments)))),C=vt(p);if(y.wheel)(y.
mouse[0][0]!==C[0]||y.mouse[0][1]!==C[1])&&(y.mouse[1]=k.invert(y.mouse[0]=C)),clearTimeout(y.wheel);else{if(k.k===A)return;y.mouse=[C,k.invert(C)],ye(this),y.start()}
ve(p),y.wheel=setTimeout(E,_),y.zoom("mouse",n(w(M(k,A),y.mouse[0],y.mouse[1]),y.extent,a));function E(){y.wheel=null,y.end()}}function J(p,...x){if(f||!t.apply(
this,arguments))return;var y=p.currentTarget,k=I(this,x,!0).event(p),A=Z(p.view).on("mousemove.zoom",B,!0).on("mouseup.zoom",ct,!0),C=vt(p,y),E=p.clientX,F=p.clientY;
Ni(p.view),cr(p),k.mouse=[C,this.__zoom.invert(C)],ye(this),k.start();function B(G){if(ve(G),!k.moved){var rt=G.clientX-E,pt=G.clientY-F;k.moved=rt*rt+pt*pt>v}k.
event(G).zoom("mouse",n(w(k.that.__zoom,k.mouse[0]=vt(G,y),k.mouse[1]),k.extent,a))}function ct(G){A.on("mousemove.zoom mouseup.zoom",null),$i(G.view,k.moved),ve(
G),k.event(G).end()}}function H(p,...x){if(t.apply(this,arguments)){var y=this.__zoom,k=vt(p.changedTouches?p.changedTouches[0]:p,this),A=y.invert(k),C=y.k*(p.shiftKey?
.5:2),E=n(w(M(y,C),k,A),e.apply(this,x),a);ve(p),s>0?Z(this).transition().duration(s).call(R,E,k,p):Z(this).call(g.transform,E,k,p)}}function j(p,...x){if(t.apply(
this,arguments)){var y=p.touches,k=y.length,A=I(this,x,p.changedTouches.length===k).event(p),C,E,F,B;for(cr(p),E=0;E<k;++E)F=y[E],B=vt(F,this),B=[B,this.__zoom.
invert(B),F.identifier],A.touch0?!A.touch1&&A.touch0[2]!==B[2]&&(A.touch1=B,A.taps=0):(A.touch0=B,C=!0,A.taps=1+!!h);h&&(h=clearTimeout(h)),C&&(A.taps<2&&(m=B[0],
h=setTimeout(function(){h=null},d)),ye(this),A.start())}}function O(p,...x){if(this.__zooming){var y=I(this,x).event(p),k=p.changedTouches,A=k.length,C,E,F,B;for(ve(
p),C=0;C<A;++C)E=k[C],F=vt(E,this),y.touch0&&y.touch0[2]===E.identifier?y.touch0[0]=F:y.touch1&&y.touch1[2]===E.identifier&&(y.touch1[0]=F);if(E=y.that.__zoom,y.
touch1){var ct=y.touch0[0],G=y.touch0[1],rt=y.touch1[0],pt=y.touch1[1],it=(it=rt[0]-ct[0])*it+(it=rt[1]-ct[1])*it,_t=(_t=pt[0]-G[0])*_t+(_t=pt[1]-G[1])*_t;E=M(E,
Math.sqrt(it/_t)),F=[(ct[0]+rt[0])/2,(ct[1]+rt[1])/2],B=[(G[0]+pt[0])/2,(G[1]+pt[1])/2]}else if(y.touch0)F=y.touch0[0],B=y.touch0[1];else return;y.zoom("touch",
n(w(E,F,B),y.extent,a))}}function mt(p,...x){if(this.__zooming){var y=I(this,x).event(p),k=p.changedTouches,A=k.length,C,E;for(cr(p),f&&clearTimeout(f),f=setTimeout(
function(){f=null},d),C=0;C<A;++C)E=k[C],y.touch0&&y.touch0[2]===E.identifier?delete y.touch0:y.touch1&&y.touch1[2]===E.identifier&&delete y.touch1;if(y.touch1&&
!y.touch0&&(y.touch0=y.touch1,delete y.touch1),y.touch0)y.touch0[1]=this.__zoom.invert(y.touch0[0]);else if(y.end(),y.taps===2&&(E=vt(E,this),Math.hypot(m[0]-E[0],
m[1]-E[1])<b)){var F=Z(this).on("dblclick.zoom");F&&F.apply(this,arguments)}}}return g.wheelDelta=function(p){return arguments.length?(r=typeof p=="function"?p:
en(+p),g):r},g.filter=function(p){return arguments.length?(t=typeof p=="function"?p:en(!!p),g):t},g.touchable=function(p){return arguments.length?(i=typeof p=="\
function"?p:en(!!p),g):i},g.extent=function(p){return arguments.length?(e=typeof p=="function"?p:en([[+p[0][0],+p[0][1]],[+p[1][0],+p[1][1]]]),g):e},g.scaleExtent=
function(p){return arguments.length?(o[0]=+p[0],o[1]=+p[1],g):[o[0],o[1]]},g.translateExtent=function(p){return arguments.length?(a[0][0]=+p[0][0],a[1][0]=+p[1][0],
a[0][1]=+p[0][1],a[1][1]=+p[1][1],g):[[a[0][0],a[0][1]],[a[1][0],a[1][1]]]},g.constrain=function(p){return arguments.length?(n=p,g):n},g.duration=function(p){return arguments.
length?(s=+p,g):s},g.interpolate=function(p){return arguments.length?(l=p,g):l},g.on=function(){var p=u.on.apply(u,arguments);return p===u?g:p},g.clickDistance=
function(p){return arguments.length?(v=(p=+p)*p,g):Math.sqrt(v)},g.tapDistance=function(p){return arguments.length?(b=+p,g):b},g}function be(t,e){return t==null||e==null?NaN:t<e?-1:t>e?1:t>=e?0:NaN}function sc(t,e){return t==null||e==null?NaN:e<t?-1:e>t?1:e>=t?0:NaN}function Mo(t){let e,n,
r;t.length!==2?(e=be,n=(s,l)=>be(t(s),l),r=(s,l)=>t(s)-l):(e=t===be||t===sc?t:uc,n=t,r=t);function i(s,l,u=0,h=s.length){if(u<h){if(e(l,l)!==0)return h;do{let m=u+
h>>>1;n(s[m],l)<0?u=m+1:h=m}while(u<h)}return u}function o(s,l,u=0,h=s.length){if(u<h){if(e(l,l)!==0)return h;do{let m=u+h>>>1;n(s[m],l)<=0?u=m+1:h=m}while(u<h)}
return u}function a(s,l,u=0,h=s.length){let m=i(s,l,u,h-1);return m>u&&r(s[m-1],l)>-r(s[m],l)?m-1:m}return{left:i,center:a,right:o}}function uc(){return 0}function lc(t){
return t===null?NaN:+t}var No=Mo(be),$o=No.right,Oh=No.left,zh=Mo(lc).center;var Rh=So(Ao),Ph=So(cc);function So(t){return function(e,n,r=n){if(!((n=+n)>=0))throw new RangeError("invalid rx");if(!((r=+r)>=0))throw new RangeError("invalid\
 ry");let{data:i,width:o,height:a}=e;if(!((o=Math.floor(o))>=0))throw new RangeError("invalid width");if(!((a=Math.floor(a!==void 0?a:i.length/o))>=0))throw new RangeError(
"invalid height");if(!o||!a||!n&&!r)return e;let s=n&&t(n),l=r&&t(r),u=i.slice();return s&&l?(Kt(s,u,i,o,a),Kt(s,i,u,o,a),Kt(s,u,i,o,a),Qt(l,i,u,o,a),Qt(l,u,i,o,
a),Qt(l,i,u,o,a)):s?(Kt(s,i,u,o,a),Kt(s,u,i,o,a),Kt(s,i,u,o,a)):l&&(Qt(l,i,u,o,a),Qt(l,u,i,o,a),Qt(l,i,u,o,a)),e}}function Kt(t,e,n,r,i){for(let o=0,a=r*i;o<a;)
t(e,n,o,o+=r,1)}function Qt(t,e,n,r,i){for(let o=0,a=r*i;o<r;++o)t(e,n,o,o+a,r)}function cc(t){let e=Ao(t);return(n,r,i,o,a)=>{i<<=2,o<<=2,a<<=2,e(n,r,i+0,o+0,a),
e(n,r,i+1,o+1,a),e(n,r,i+2,o+2,a),e(n,r,i+3,o+3,a)}}function Ao(t){let e=Math.floor(t);if(e===t)return fc(t);let n=t-e,r=2*t+1;return(i,o,a,s,l)=>{if(!((s-=l)>=
a))return;let u=e*o[a],h=l*e,m=h+l;for(let f=a,d=a+h;f<d;f+=l)u+=o[Math.min(s,f)];for(let f=a,d=s;f<=d;f+=l)u+=o[Math.min(s,f+h)],i[f]=(u+n*(o[Math.max(a,f-m)]+
o[Math.min(s,f+m)]))/r,u-=o[Math.max(a,f-h)]}}function fc(t){let e=2*t+1;return(n,r,i,o,a)=>{if(!((o-=a)>=i))return;let s=t*r[i],l=a*t;for(let u=i,h=i+l;u<h;u+=
a)s+=r[Math.min(o,u)];for(let u=i,h=o;u<=h;u+=a)s+=r[Math.min(o,u+l)],n[u]=s/e,s-=r[Math.max(i,u-l)]}}var hc=Array.prototype,Dh=hc.slice;var dc=Math.sqrt(50),mc=Math.sqrt(10),pc=Math.sqrt(2);function nn(t,e,n){let r=(e-t)/Math.max(0,n),i=Math.floor(Math.log10(r)),o=r/Math.pow(10,i),a=o>=dc?10:o>=
mc?5:o>=pc?2:1,s,l,u;return i<0?(u=Math.pow(10,-i)/a,s=Math.round(t*u),l=Math.round(e*u),s/u<t&&++s,l/u>e&&--l,u=-u):(u=Math.pow(10,i)*a,s=Math.round(t/u),l=Math.
round(e/u),s*u<t&&++s,l*u>e&&--l),l<s&&.5<=n&&n<2?nn(t,e,n*2):[s,l,u]}function on(t,e,n){if(e=+e,t=+t,n=+n,!(n>0))return[];if(t===e)return[t];let r=e<t,[i,o,a]=r?
nn(e,t,n):nn(t,e,n);if(!(o>=i))return[];let s=o-i+1,l=new Array(s);if(r)if(a<0)for(let u=0;u<s;++u)l[u]=(o-u)/-a;else for(let u=0;u<s;++u)l[u]=(o-u)*a;else if(a<
0)for(let u=0;u<s;++u)l[u]=(i+u)/-a;else for(let u=0;u<s;++u)l[u]=(i+u)*a;return l}function rn(t,e,n){return e=+e,t=+t,n=+n,nn(t,e,n)[2]}function Eo(t,e,n){e=+e,
t=+t,n=+n;let r=e<t,i=r?rn(e,t,n):rn(t,e,n);return(r?-1:1)*(i<0?1/-i:i)}var Fh=_c(Math.random);function _c(t){return function(n,r=0,i=n.length){let o=i-(r=+r);for(;o;){let a=t()*o--|0,s=n[o+r];n[o+r]=n[a+r],n[a+r]=s}return n}}function gc(t){return Math.abs(t=Math.round(t))>=1e21?t.toLocaleString("en").replace(/,/g,""):t.toString(10)}function sn(t,e){if(!isFinite(t)||t===0)return null;
var n=(t=e?t.toExponential(e-1):t.toExponential()).indexOf("e"),r=t.slice(0,n);return[r.length>1?r[0]+r.slice(2):r,+t.slice(n+1)]}function Zt(t){return t=sn(Math.
abs(t)),t?t[1]:NaN}function yc(t,e){return function(n,r){for(var i=n.length,o=[],a=0,s=t[0],l=0;i>0&&s>0&&(l+s+1>r&&(s=Math.max(1,r-l)),o.push(n.substring(i-=s,
i+s)),!((l+=s+1)>r));)s=t[a=(a+1)%t.length];return o.reverse().join(e)}}function vc(t){return function(e){return e.replace(/[0-9]/g,function(n){return t[+n]})}}
var bc=/^(?:(.)?([<>=^]))?([+\-( ])?([$#])?(0)?(\d+)?(,)?(\.\d+)?(~)?([a-z%])?$/i;function Jt(t){if(!(e=bc.exec(t)))throw new Error("invalid format: "+t);var e;
return new fr({fill:e[1],align:e[2],sign:e[3],symbol:e[4],zero:e[5],width:e[6],comma:e[7],precision:e[8]&&e[8].slice(1),trim:e[9],type:e[10]})}Jt.prototype=fr.prototype;
function fr(t){this.fill=t.fill===void 0?" ":t.fill+"",this.align=t.align===void 0?">":t.align+"",this.sign=t.sign===void 0?"-":t.sign+"",this.symbol=t.symbol===
void 0?"":t.symbol+"",this.zero=!!t.zero,this.width=t.width===void 0?void 0:+t.width,this.comma=!!t.comma,this.precision=t.precision===void 0?void 0:+t.precision,
this.trim=!!t.trim,this.type=t.type===void 0?"":t.type+""}fr.prototype.toString=function(){return this.fill+this.align+this.sign+this.symbol+(this.zero?"0":"")+
(this.width===void 0?"":Math.max(1,this.width|0))+(this.comma?",":"")+(this.precision===void 0?"":"."+Math.max(0,this.precision|0))+(this.trim?"~":"")+this.type};
function wc(t){t:for(var e=t.length,n=1,r=-1,i;n<e;++n)switch(t[n]){case".":r=i=n;break;case"0":r===0&&(r=n),i=n;break;default:if(!+t[n])break t;r>0&&(r=0);break}
return r>0?t.slice(0,r)+t.slice(i+1):t}var un;function xc(t,e){var n=sn(t,e);if(!n)return un=void 0,t.toPrecision(e);var r=n[0],i=n[1],o=i-(un=Math.max(-8,Math.
min(8,Math.floor(i/3)))*3)+1,a=r.length;return o===a?r:o>a?r+new Array(o-a+1).join("0"):o>0?r.slice(0,o)+"."+r.slice(o):"0."+new Array(1-o).join("0")+sn(t,Math.
max(0,e+o-1))[0]}function Co(t,e){var n=sn(t,e);if(!n)return t+"";var r=n[0],i=n[1];return i<0?"0."+new Array(-i).join("0")+r:r.length>i+1?r.slice(0,i+1)+"."+r.
slice(i+1):r+new Array(i-r.length+2).join("0")}var Io={"%":(t,e)=>(t*100).toFixed(e),b:t=>Math.round(t).toString(2),c:t=>t+"",d:gc,e:(t,e)=>t.toExponential(e),f:(t,e)=>t.
toFixed(e),g:(t,e)=>t.toPrecision(e),o:t=>Math.round(t).toString(8),p:(t,e)=>Co(t*100,e),r:Co,s:xc,X:t=>Math.round(t).toString(16).toUpperCase(),x:t=>Math.round(
t).toString(16)};function To(t){return t}var Oo=Array.prototype.map,zo=["y","z","a","f","p","n","\xB5","m","","k","M","G","T","P","E","Z","Y"];function kc(t){var e=t.
grouping===void 0||t.thousands===void 0?To:yc(Oo.call(t.grouping,Number),t.thousands+""),n=t.currency===void 0?"":t.currency[0]+"",r=t.currency===void 0?"":t.currency[1]+
"",i=t.decimal===void 0?".":t.decimal+"",o=t.numerals===void 0?To:vc(Oo.call(t.numerals,String)),a=t.percent===void 0?"%":t.percent+"",s=t.minus===void 0?"\u2212":
t.minus+"",l=t.nan===void 0?"NaN":t.nan+"";function u(m,f){m=Jt(m);var d=m.fill,_=m.align,v=m.sign,b=m.symbol,g=m.zero,M=m.width,w=m.comma,$=m.precision,R=m.trim,
I=m.type;I==="n"?(w=!0,I="g"):Io[I]||($===void 0&&($=12),R=!0,I="g"),(g||d==="0"&&_==="=")&&(g=!0,d="0",_="=");var L=(f&&f.prefix!==void 0?f.prefix:"")+(b==="$"?
n:b==="#"&&/[boxX]/.test(I)?"0"+I.toLowerCase():""),Q=(b==="$"?r:/[%p]/.test(I)?a:"")+(f&&f.suffix!==void 0?f.suffix:""),J=Io[I],H=/[defgprs%]/.test(I);$=$===void 0?
6:/[gprs]/.test(I)?Math.max(1,Math.min(21,$)):Math.max(0,Math.min(20,$));function j(O){var mt=L,p=Q,x,y,k;if(I==="c")p=J(O)+p,O="";else{O=+O;var A=O<0||1/O<0;if(O=
isNaN(O)?l:J(Math.abs(O),$),R&&(O=wc(O)),A&&+O==0&&v!=="+"&&(A=!1),mt=(A?v==="("?v:s:v==="-"||v==="("?"":v)+mt,p=(I==="s"&&!isNaN(O)&&un!==void 0?zo[8+un/3]:"")+
p+(A&&v==="("?")":""),H){for(x=-1,y=O.length;++x<y;)if(k=O.charCodeAt(x),48>k||k>57){p=(k===46?i+O.slice(x+1):O.slice(x))+p,O=O.slice(0,x);break}}}w&&!g&&(O=e(O,
1/0));var C=mt.length+O.length+p.length,E=C<M?new Array(M-C+1).join(d):"";switch(w&&g&&(O=e(E+O,E.length?M-p.length:1/0),E=""),_){case"<":O=mt+O+p+E;break;case"\
=":O=mt+E+O+p;break;case"^":O=E.slice(0,C=E.length>>1)+mt+O+p+E.slice(C);break;default:O=E+mt+O+p;break}return o(O)}return j.toString=function(){return m+""},j}
function h(m,f){var d=Math.max(-8,Math.min(8,Math.floor(Zt(f)/3)))*3,_=Math.pow(10,-d),v=u((m=Jt(m),m.type="f",m),{suffix:zo[8+d/3]});return function(b){return v(
_*b)}}return{format:u,formatPrefix:h}}var an,ln,hr;Mc({thousands:",",grouping:[3],currency:["$",""]});function Mc(t){return an=kc(t),ln=an.format,hr=an.formatPrefix,
an}function Ro(t){return Math.max(0,-Zt(Math.abs(t)))}function Po(t,e){return Math.max(0,Math.max(-8,Math.min(8,Math.floor(Zt(e)/3)))*3-Zt(Math.abs(t)))}function Do(t,e){
return t=Math.abs(t),e=Math.abs(e)-t,Math.max(0,Zt(e)-Zt(t))+1}function Bo(t,e){switch(arguments.length){case 0:break;case 1:this.range(t);break;default:this.range(e).domain(t);break}return this}function Nc(t){return function(){return t}}function $c(t){return+t}var Fo=[0,1];function jt(t){return t}function dr(t,e){return(e-=t=+t)?function(n){return(n-t)/
e}:Nc(isNaN(e)?NaN:.5)}function Sc(t,e){var n;return t>e&&(n=t,t=e,e=n),function(r){return Math.max(t,Math.min(e,r))}}function Ac(t,e,n){var r=t[0],i=t[1],o=e[0],
a=e[1];return i<r?(r=dr(i,r),o=n(a,o)):(r=dr(r,i),o=n(o,a)),function(s){return o(r(s))}}function Ec(t,e,n){var r=Math.min(t.length,e.length)-1,i=new Array(r),o=new Array(
r),a=-1;for(t[r]<t[0]&&(t=t.slice().reverse(),e=e.slice().reverse());++a<r;)i[a]=dr(t[a],t[a+1]),o[a]=n(e[a],e[a+1]);return function(s){var l=$o(t,s,1,r)-1;return o[l](
i[l](s))}}function Uo(t,e){return e.domain(t.domain()).range(t.range()).interpolate(t.interpolate()).clamp(t.clamp()).unknown(t.unknown())}function Vo(){var t=Fo,
e=Fo,n=We,r,i,o,a=jt,s,l,u;function h(){var f=Math.min(t.length,e.length);return a!==jt&&(a=Sc(t[0],t[f-1])),s=f>2?Ec:Ac,l=u=null,m}function m(f){return f==null||
isNaN(f=+f)?o:(l||(l=s(t.map(r),e,n)))(r(a(f)))}return m.invert=function(f){return a(i((u||(u=s(e,t.map(r),nt)))(f)))},m.domain=function(f){return arguments.length?
(t=Array.from(f,$c),h()):t.slice()},m.range=function(f){return arguments.length?(e=Array.from(f),h()):e.slice()},m.rangeRound=function(f){return e=Array.from(f),
n=eo,h()},m.clamp=function(f){return arguments.length?(a=f?!0:jt,h()):a!==jt},m.interpolate=function(f){return arguments.length?(n=f,h()):n},m.unknown=function(f){
return arguments.length?(o=f,m):o},function(f,d){return r=f,i=d,h()}}function Cc(){return Vo()(jt,jt)}function Ic(t,e,n,r){var i=Eo(t,e,n),o;switch(r=Jt(r??",f"),
r.type){case"s":{var a=Math.max(Math.abs(t),Math.abs(e));return r.precision==null&&!isNaN(o=Po(i,a))&&(r.precision=o),hr(r,a)}case"":case"e":case"g":case"p":case"\
r":{r.precision==null&&!isNaN(o=Do(i,Math.max(Math.abs(t),Math.abs(e))))&&(r.precision=o-(r.type==="e"));break}case"f":case"%":{r.precision==null&&!isNaN(o=Ro(i))&&
(r.precision=o-(r.type==="%")*2);break}}return ln(r)}function Tc(t){var e=t.domain;return t.ticks=function(n){var r=e();return on(r[0],r[r.length-1],n??10)},t.tickFormat=
function(n,r){var i=e();return Ic(i[0],i[i.length-1],n??10,r)},t.nice=function(n){n==null&&(n=10);var r=e(),i=0,o=r.length-1,a=r[i],s=r[o],l,u,h=10;for(s<a&&(u=
a,a=s,s=u,u=i,i=o,o=u);h-- >0;){if(u=rn(a,s,n),u===l)return r[i]=a,r[o]=s,e(r);if(u>0)a=Math.floor(a/u)*u,s=Math.ceil(s/u)*u;else if(u<0)a=Math.ceil(a*u)/u,s=Math.
floor(s*u)/u;else break;l=u}return t},t}function cn(){var t=Cc();return t.copy=function(){return Uo(t,cn())},Bo.apply(t,arguments),Tc(t)}function Oc(t,e){t=t.slice();var n=0,r=t.length-1,i=t[n],o=t[r],a;return o<i&&(a=n,n=r,r=a,a=i,i=o,o=a),t[n]=e.floor(i),t[r]=e.ceil(o),t}function Lo(t){return Math.
log(t)}function qo(t){return Math.exp(t)}function zc(t){return-Math.log(-t)}function Rc(t){return-Math.exp(-t)}function Pc(t){return isFinite(t)?+("1e"+t):t<0?0:
t}function Dc(t){return t===10?Pc:t===Math.E?Math.exp:e=>Math.pow(t,e)}function Fc(t){return t===Math.E?Math.log:t===10&&Math.log10||t===2&&Math.log2||(t=Math.log(
t),e=>Math.log(e)/t)}function Ho(t){return(e,n)=>-t(-e,n)}function Lc(t){let e=t(Lo,qo),n=e.domain,r=10,i,o;function a(){return i=Fc(r),o=Dc(r),n()[0]<0?(i=Ho(i),
o=Ho(o),t(zc,Rc)):t(Lo,qo),e}return e.base=function(s){return arguments.length?(r=+s,a()):r},e.domain=function(s){return arguments.length?(n(s),a()):n()},e.ticks=
s=>{let l=n(),u=l[0],h=l[l.length-1],m=h<u;m&&([u,h]=[h,u]);let f=i(u),d=i(h),_,v,b=s==null?10:+s,g=[];if(!(r%1)&&d-f<b){if(f=Math.floor(f),d=Math.ceil(d),u>0){
for(;f<=d;++f)for(_=1;_<r;++_)if(v=f<0?_/o(-f):_*o(f),!(v<u)){if(v>h)break;g.push(v)}}else for(;f<=d;++f)for(_=r-1;_>=1;--_)if(v=f>0?_/o(-f):_*o(f),!(v<u)){if(v>
h)break;g.push(v)}g.length*2<b&&(g=on(u,h,b))}else g=on(f,d,Math.min(d-f,b)).map(o);return m?g.reverse():g},e.tickFormat=(s,l)=>{if(s==null&&(s=10),l==null&&(l=
r===10?"s":","),typeof l!="function"&&(!(r%1)&&(l=Jt(l)).precision==null&&(l.trim=!0),l=ln(l)),s===1/0)return l;let u=Math.max(1,r*s/e.ticks().length);return h=>{
let m=h/o(Math.round(i(h)));return m*r<r-.5&&(m*=r),m<=u?l(h):""}},e.nice=()=>n(Oc(n(),{floor:s=>o(Math.floor(i(s))),ceil:s=>o(Math.ceil(i(s)))})),e}function fn(){
let t=Lc(Vo()).domain([1,10]);return t.copy=()=>Uo(t,fn()).base(t.base()),Bo.apply(t,arguments),t}var[hn,we,dn,mr,pr]=[520,240,48,34,10];function mn({rows:t,limits:e,pick:n}){let r=t.filter(f=>f.intensity&&f.gflops);if(!r.length)return c("p",{class:"note",children:"\
No node of these multiplies matrices."});let i=e.reading.at(-1)[1],o=Math.max(...e.reading.map(([,f])=>f)),a=r.map(f=>f.intensity),s=fn([Math.min(.1,...a)/2,Math.
max(100,...a)*2],[dn,hn-10]),l=fn([Math.min(e.gflops/100,...r.map(f=>f.gflops))/2,e.gflops*2],[we-mr,pr]),[u,h]=s.domain(),m=f=>{let d=e.gflops/f;return`M${s(u)}\
 ${l(Math.max(l.domain()[0],Math.min(e.gflops,u*f)))}L${s(Math.min(h,Math.max(u,d)))} ${l(e.gflops)}H${s(h)}`};return c("figure",{children:[c("svg",{class:"plot",
viewBox:`0 0 ${hn} ${we}`,role:"group","aria-label":"Roofline: GFLOP/s by floating-point operations for each byte",children:[s.ticks(4).filter(f=>Number.isInteger(
Math.log10(f))).map(f=>c("g",{class:"tick",children:[c("path",{d:`M${s(f)} ${pr}V${we-mr}`}),c("text",{x:s(f),y:we-mr+14,"text-anchor":"middle",children:q(f)})]},
`x${f}`)),l.ticks(4).filter(f=>Number.isInteger(Math.log10(f))).map(f=>c("g",{class:"tick",children:[c("path",{d:`M${dn} ${l(f)}H${hn-10}`}),c("text",{x:dn-6,y:l(
f)+4,"text-anchor":"end",children:q(f)})]},`y${f}`)),c("path",{class:"roof",d:m(o)}),c("path",{class:"roof memory",d:m(i)}),r.map(f=>c("circle",{cx:s(f.intensity),
cy:l(f.gflops),r:4+8*Math.sqrt(f.share??0),onClick:n&&(()=>n(f.index)),class:n?"pick":"",children:c("title",{children:`${z(W(f),60)}: ${q(f.gflops)} GFLOP/s at ${q(
f.intensity)} FLOP/byte`})},f.index)),c("text",{class:"axis",x:hn-10,y:we-4,"text-anchor":"end",children:"FLOP for each byte"}),c("text",{class:"axis",x:dn,y:pr+
2,dx:"4",dy:"8",children:"GFLOP/s"})]}),c("figcaption",{class:"note",children:["Limits measured on this machine: ",q(e.gflops)," GFLOP/s; reading ",q(o)," GB/s \
from the first cache, ",q(i)," GB/s from memory (the lower line)."]})]})}var qc=[{id:"time",name:"time",value:t=>t.took},{id:"bytes",name:"bytes of weights",value:t=>t.weights_bytes},{id:"work",name:"multiply-adds",value:t=>t.multiply_adds},
{id:"error",name:"error",value:t=>t.error},{id:"none",name:"nothing",value:()=>null}],gr=.42,pn=.5,_r=4;function Xo({subject:t,picked:e,setPicked:n}){let r=qc.filter(
h=>h.id==="none"||t.rows.some(m=>h.value(m))),[i,o]=X(r[0]),[a,s]=X(""),l=at(()=>a?t.rows.filter(h=>`${W(h)} ${h.kernelName}`.toLowerCase().includes(a.toLowerCase())):
[],[a,t]);return c(D,{children:[c("form",{class:"tools",onSubmit:h=>{if(h.preventDefault(),!l.length)return;let m=l.findIndex(f=>f.index===e);n(l[(m+1)%l.length].
index)},children:[c("label",{children:["colour by ",c("select",{value:i.id,onChange:h=>o(r.find(m=>m.id===h.currentTarget.value)),children:r.map(h=>c("option",{
value:h.id,children:h.name},h.id))})]}),c("label",{children:["Find ",c("input",{type:"search",value:a,onInput:h=>s(h.currentTarget.value)})]}),c("button",{type:"\
submit",disabled:!l.length,children:"Next"}),c("span",{class:"note","aria-live":"polite",children:a?`${l.length} nodes`:`${T(t.rows.length)} nodes, in the order\
 in which they run`})]}),c("div",{class:"graph",children:[c(Hc,{subject:t,colour:i,picked:e,setPicked:n,found:l}),e===null?c("p",{class:"card note side",children:"\
A box is a kernel with the model's nodes that it computes. Click one; drag moves the picture, the wheel or two fingers scale it."}):c(Vc,{subject:t,row:t.rows[e],
setPicked:n})]})]})}function Hc({subject:t,colour:e,picked:n,setPicked:r,found:i}){let{picture:o,rows:a}=t,s=ae(null),l=ae(null),u=ae(null),[h,m]=X({x:0,y:0,width:0,
height:0,words:!1}),f=at(()=>Math.max(...a.map(w=>e.value(w)??0),0),[a,e]),d=at(()=>Wc(t),[t]),_=at(()=>new Set(i.map(w=>w.index)),[i]);Ct(()=>{let w=s.current,
$=null,R=({transform:L})=>{l.current.setAttribute("transform",L);let[Q,J]=[w.clientWidth/L.k,w.clientHeight/L.k],[H,j]=[-L.x/L.k,-L.y/L.k],O=L.k>=gr;$&&$.words===
O&&H>=$.x&&j>=$.y&&H+Q<=$.x+$.width&&j+J<=$.y+$.height&&Q>$.width/6||($={x:H-pn*Q,y:j-pn*J,width:(1+2*pn)*Q,height:(1+2*pn)*J,words:O},m($))},I=ko().scaleExtent(
[.005,3]).on("zoom",R);return u.current=I,Z(w).call(I).on("dblclick.zoom",null),Z(w).call(I.transform,Wo(w,o,n===null?null:o.nodes[n])),()=>Z(w).on(".zoom",null)},
[t]),Ct(()=>{if(n===null)return;let[w,$]=o.nodes[n],R=s.current.__zoom,[I,L]=R.apply([w,$]);(I<60||L<30||I>s.current.clientWidth-60||L>s.current.clientHeight-30||
R.k<gr)&&Z(s.current).call(u.current.transform,Wo(s.current,o,[w,$]))},[n]);let v=([w,$,R,I])=>w+R/2>h.x&&w-R/2<h.x+h.width&&$+I/2>h.y&&$-I/2<h.y+h.height,b=h.width?
a.filter(w=>v(o.nodes[w.index])):[],g=w=>Z(s.current).call(u.current.scaleBy,w);return c("div",{class:"canvas",children:[c("svg",{ref:s,role:"group","aria-label":"\
Graph of the kernels; up and down go from node to node, plus and minus scale",tabIndex:0,onKeyDown:w=>{let $={ArrowDown:1,ArrowUp:-1}[w.key];if($&&n!==null)r(Math.
min(a.length-1,Math.max(0,n+$)));else if(w.key==="+"||w.key==="-")g(w.key==="+"?1.4:1/1.4);else return;w.preventDefault()},children:c("g",{ref:l,children:[t.control.
map((w,$)=>c(Uc,{row:w,picture:o},$)),c("path",{class:"edges",d:d.forward}),c("path",{class:"edges back",d:d.back}),n!==null&&c("path",{class:"edges own",d:d.own(
n)}),b.map(w=>c(Bc,{row:w,place:o.nodes[w.index],words:h.words,heat:f?(e.value(w)??0)/f:0,picked:w.index===n,marked:_.has(w.index),pick:()=>r(w.index),time:t.time},
w.index))]})}),c("div",{class:"scale",children:[c("button",{type:"button",onClick:()=>g(1.4),"aria-label":"Larger",children:"+"}),c("button",{type:"button",onClick:()=>g(
1/1.4),"aria-label":"Smaller",children:"\u2212"}),c("button",{type:"button",onClick:()=>Z(s.current).call(u.current.transform,Yo(s.current,o)),children:"All"})]})]})}
function Bc({row:t,place:[e,n,r,i],words:o,heat:a,picked:s,marked:l,pick:u,time:h}){let m=t.sources.length>_r?[...t.sources.slice(0,_r),`and ${t.sources.length-
_r} more`]:t.sources,f=`node ${t.index}: ${z(W(t),80)}`;return c("g",{class:`node${s?" picked":""}${l?" marked":""}`,transform:`translate(${e-r/2} ${n-i/2})`,onClick:u,
"data-node":t.index,children:[c("title",{children:`${f}
${N(t.kernelName)}`}),c("rect",{width:r,height:i,rx:o?6:2,style:{"--heat":`${Math.round(100*Math.sqrt(a))*(o?.55:1)}%`}}),o&&c(D,{children:[c("text",{class:"hea\
d",x:"10",y:"18",children:z(t.kernelName,18)}),c("text",{class:"took",x:r-10,y:"18",children:h&&t.took!==null?yt(h,t.took):""}),c("text",{class:"shape",x:"10",y:"\
34",children:[t.device?`${z(t.device,10)} `:"",t.share===null?"":st(t.share)]}),m.map((d,_)=>c("text",{class:"source",x:"10",y:50+15*_-2,children:z(d,30)},_))]})]})}
function Uc({row:t,picture:e}){let n=e.nodes.slice(t.nodes[0],t.nodes.at(-1));if(!n.length)return null;let r=Math.min(...n.map(([s,,l])=>s-l/2))-16,i=Math.max(...n.
map(([s,,l])=>s+l/2))+16,o=Math.min(...n.map(([,s,,l])=>s-l/2))-24,a=Math.max(...n.map(([,s,,l])=>s+l/2))+10;return c("g",{class:"region",children:[c("rect",{x:r,
y:o,width:i-r,height:a-o,rx:"10"}),c("text",{x:r+10,y:o+16,children:`${t.op} ${z(t.name,30)}${t.count?`, ${T(t.count)} times`:""}`})]})}function Vc({subject:t,row:e,
setPicked:n}){let{tensors:r,kernels:i,time:o}=t,a=i[e.kernel],s=t.rows.filter(m=>m.kernel===e.kernel),l=t.links.filter(([,m])=>m===e.index).map(([m])=>m),u=t.links.
filter(([m])=>m===e.index).map(([,m])=>m),h=m=>m.map((f,d)=>c("span",{children:[d?", ":"",c("button",{type:"button",class:"link",onClick:()=>n(f),children:f})]},
d));return c("section",{class:"card side","aria-live":"polite",children:[c("h2",{title:N(W(e)),children:z(W(e),60)}),c("dl",{class:"plain",children:[c("div",{children:[
c("dt",{children:"node"}),c("dd",{children:[e.index,e.device?` on ${N(e.device)}`:"","; reads ",l.length?h(l):"no other",", read by ",u.length?h(u):"no other"]})]}),
o&&c("div",{children:[c("dt",{children:o.unit==="ns"?"time":"counted"}),c("dd",{children:[yt(o,e.took),", ",st(e.share)," of the run"]})]}),c("div",{children:[c(
"dt",{children:"work"}),c("dd",{children:[e.multiply_adds?`${T(e.multiply_adds)} multiply-adds`:"no products",e.moved_bytes?`; reads and writes ${P(e.moved_bytes)}`:
""]})]}),e.gflops||e.gbytes?c("div",{children:[c("dt",{children:"rate"}),c("dd",{children:[[e.gflops&&`${q(e.gflops)} GFLOP/s`,e.gbytes&&`${q(e.gbytes)} GB/s`].
filter(Boolean).join(", "),e.roof!==null?`; ${st(e.roof,0)} of what ${e.bound==="memory"?"memory":"the multipliers"} can do here`:""]})]}):null,c("div",{children:[
c("dt",{children:"weights, code"}),c("dd",{children:[P(e.weights_bytes)||"?",", ",P(e.code_bytes)||"not known"]})]}),e.error!==null&&c("div",{children:[c("dt",{
children:"error"}),c("dd",{children:[q(e.error)," of the largest"]})]}),c("div",{children:[c("dt",{children:"tasks"}),c("dd",{children:N(e.tasks)})]})]}),e.intensity&&
o?.limits?c(mn,{rows:[e],limits:o.limits}):null,c("h3",{children:"Nodes of the model"}),c("ul",{class:"names",children:[e.sources.map((m,f)=>c("li",{children:N(
m)},f)),!e.sources.length&&c("li",{children:N(e.name)})]}),(e.inputs.length>0||e.outputs.length>0)&&c(D,{children:[c("h3",{children:"Tensors"}),c("ul",{class:"n\
ames",children:[e.inputs.map(m=>c("li",{children:["reads ",c("b",{children:N(r[m].name)})," ",N(It(r[m]))]},`i${m}`)),e.outputs.map(m=>c("li",{children:["writes\
 ",c("b",{children:N(r[m].name)})," ",N(It(r[m]))]},`o${m}`))]})]}),c("h3",{children:"Schedule"}),a.schedule===null?c("p",{class:"note",children:"A bundle does \
not hold the schedules of its kernels: a report on the model has them."}):a.schedule.length?c("ol",{class:"steps",children:a.schedule.map((m,f)=>c("li",{title:N(
m.step),children:N(m.words)},f))}):c("p",{class:"note",children:"The kernel is written as a loop program, or as it is."}),c("h3",{children:[N(a.name),s.length>1?
`, shared by ${s.length} nodes`:""]}),a.source?c("pre",{tabIndex:0,"aria-label":"C of the kernel",children:c("code",{children:a.source})}):c("p",{class:"note",children:"\
kernels.c is not in the bundle."})]})}function Wo(t,e,n){let[r,i]=[t.clientWidth||600,t.clientHeight||400];if(n)return Lt.translate(r/2-n[0]*.8,i/2-n[1]*.8).scale(
.8);let o=Yo(t,e);if(o.k>=gr)return o;let a=Math.max(.5,Math.min(.9,r/(e.width+40))),[s]=e.nodes[0]??[0];return Lt.translate(r/2-s*a,30).scale(a)}function Yo(t,e){
let[n,r]=[t.clientWidth||600,t.clientHeight||400],i=Math.min(1,(n-40)/Math.max(1,e.width),(r-50)/Math.max(1,e.height));return Lt.translate((n-e.width*i)/2,25).scale(
i)}function Wc({picture:t,links:e}){let n=e.filter(([,,,s])=>!s),r=s=>{let[l,...u]=s,h=`M${l[0]} ${l[1]}`,[m,f]=l;for(let[d,_]of u){let v=(f+_)/2;h+=m===d?`V${_}`:
`C${m} ${v} ${d} ${v} ${d} ${_}`,[m,f]=[d,_]}return h},i=t.edges.map(r),o=e.filter(([,,,s])=>s).map(([s,l])=>{let[[u,h,m],[f,d,_]]=[t.nodes[s],t.nodes[l]],v=Math.
max(u+m/2,f+_/2)+40;return`M${u+m/2} ${h}C${v} ${h} ${v} ${d} ${f+_/2} ${d}`}),a=s=>n.map(([l,u],h)=>l===s||u===s?i[h]:"").join("");return{forward:i.join(""),back:o.
join(""),own:a}}var[_n,yr,gn,Xc,Yc]=[900,340,70,30,10];function Go({subject:t,pick:e}){let{memory:n}=t;return c(D,{children:[t.flash.length>0&&c(Qc,{rows:t.flash}),n?c(Gc,{subject:t,
memory:n,pick:e}):c("p",{class:"card",children:"This bundle was written by a version that did not note where tensors lie. Compile it again."})]})}function Gc({subject:t,
memory:e,pick:n}){let{peak:r,pools:i,blocks:o}=e,[a,s]=X(null),l=a===null?null:o[a];return c(D,{children:[c("p",{class:"lead",children:[P(e.arena_bytes)," of ar\
ena",e.live_bytes?`; ${P(e.live_bytes)} are alive at one time, which no plan can undercut`:"",e.scratch_bytes?`; ${P(e.scratch_bytes)} of scratch for each threa\
d`:"","."]}),i.map((u,h)=>c("section",{class:"card",children:[c("h2",{children:i.length>1?`Memory ${N(u.name)}`:"The arena"}),c("div",{class:"plotted",tabIndex:0,
role:"region","aria-label":u.name,children:c(Kc,{subject:t,memory:e,pool:h,size:u.bytes,chosen:a,choose:s})}),c("p",{class:"note","aria-live":"polite",children:l&&
l.pool===h?c(D,{children:[l.tensors.map(m=>N(`${t.tensors[m].name} ${It(t.tensors[m])}`)).join(", then "),": ",T(l.bytes)," bytes at ",T(l.offset),", nodes ",l.
first," to ",l.last,". ",c("button",{type:"button",class:"link",onClick:()=>n(l.first),children:["Show node ",l.first]})]}):"From left to right: the nodes, in t\
heir order. Upwards: the bytes. A block is a tensor from the node that makes it to the last that reads it; click one for its name."})]},h)),r&&c("section",{class:"\
card",children:[c("h2",{children:"What decides the peak"}),c("p",{children:["At node ",r.node,", ",c("button",{type:"button",class:"link",onClick:()=>n(r.node),
children:z(W(t.rows[r.node]),60)}),", ",P(r.bytes)," are needed at once:"]}),c(K,{caption:"Alive at the peak",rows:r.blocks.map(u=>({...o[u],key:u})),first:{column:1,
down:!0},columns:[{name:"tensor",value:u=>u.tensors.map(h=>t.tensors[h].name).join(", "),show:u=>z(u.tensors.map(h=>t.tensors[h].name).join(", "),60)},{name:"by\
tes",value:u=>u.bytes,show:u=>T(u.bytes),number:!0},{name:"from node",value:u=>u.first,number:!0},{name:"to node",value:u=>u.last,number:!0}]})]}),c("section",{
class:"card",children:[c("h2",{children:"What else would give"}),e.choices.length?c("div",{class:"scroll",tabIndex:0,role:"region","aria-label":"What else would\
 give",children:c("table",{children:[c("thead",{children:c("tr",{children:[c("th",{scope:"col",children:"choice"}),c("th",{scope:"col",class:"number",children:"\
bytes"}),c("th",{scope:"col",class:"number",children:"change"}),c("th",{scope:"col",class:"number",children:"multiply-adds"})]})}),c("tbody",{children:e.choices.
map((u,h)=>c("tr",{children:[c("td",{class:"text",children:N(u.text)}),c("td",{class:"number",children:T(u.bytes)}),c("td",{class:"number",children:Bt(u.bytes/Math.
max(1,e.arena_bytes)-1)}),c("td",{class:"number",children:u.multiply_adds?Bt(u.multiply_adds/Math.max(1,t.totals.multiply_adds)-1):""})]},h))})]})}):c("p",{class:"\
note",children:["No other order of the nodes was found that needs less",t.kind==="firmware"?"; a report on the model says what --max-ram would give":"","."]})]})]})}
function Kc({subject:t,memory:e,pool:n,size:r,chosen:i,choose:o}){let a=t.rows.length,s=cn([0,Math.max(1,a)],[gn,_n-10]),l=cn([0,Math.max(1,r)],[yr-Xc,Yc]),u=e.
blocks.map((d,_)=>[d,_]).filter(([d])=>d.pool===n),h=e.pools.length===1,m=e.alive.map((d,_)=>`${_?"L":"M"}${s(_)} ${l(d)}H${s(_+1)}`).join(""),f=Math.max(1,Math.
round(a/10));return c("svg",{class:"plot",viewBox:`0 0 ${_n} ${yr}`,role:"group","aria-label":"Tensors by address and lifetime",children:[l.ticks(6).map(d=>c("g",
{class:"tick",children:[c("path",{d:`M${gn} ${l(d)}H${_n-10}`}),c("text",{x:gn-6,y:l(d)+4,"text-anchor":"end",children:P(d)})]},d)),t.rows.filter((d,_)=>_%f===0).
map(d=>c("text",{class:"axis",x:s(d.index),y:yr-12,children:d.index},d.index)),u.map(([d,_])=>c("rect",{class:`block tone${_%6}${i===_?" picked":""}`,x:s(d.first),
width:Math.max(1,s(d.last+1)-s(d.first)-.5),y:l(d.offset+d.bytes),height:Math.max(1,l(d.offset)-l(d.offset+d.bytes)-.5),onClick:()=>o(_),children:c("title",{children:[
z(d.tensors.map(v=>t.tensors[v].name).join(", "),80),": ",P(d.bytes)]})},_)),h&&c("path",{class:"alive",d:m}),h&&e.live_bytes?c("g",{class:"bound",children:c("p\
ath",{d:`M${gn} ${l(e.live_bytes)}H${_n-10}`})}):null]})}function Qc({rows:t}){let e=t.reduce((r,i)=>r+i.bytes,0)||1,n=0;return c("section",{class:"card",children:[
c("h2",{children:["Flash: ",P(e)]}),c("svg",{class:"strip",viewBox:"0 0 1000 40",preserveAspectRatio:"none",role:"group","aria-label":"Flash by section",children:t.
map((r,i)=>{let[o,a]=[1e3*n/e,1e3*r.bytes/e];return n+=r.bytes,c("rect",{class:`block tone${i%6}`,x:o,width:a,height:"40",children:c("title",{children:[N(`${r.section}\
 ${r.what}`),": ",P(r.bytes)]})},i)})}),c(K,{caption:"Flash by section",rows:t.map((r,i)=>({...r,key:i})),first:{column:2,down:!0},columns:[{name:"section",value:r=>r.
section},{name:"what",value:r=>r.what,show:r=>N(r.what)},{name:"bytes",value:r=>r.bytes,show:r=>T(r.bytes),number:!0}]})]})}function Ko(t){let{nodes:e,kernels:n,time:r,numbers:i}=t,o=r?r.nodes.reduce((l,u)=>l+u,0)||1:null,a=new Map((i?.layers??[]).filter(l=>l.node!==null).map(l=>[l.node,
l])),s=e.map((l,u)=>{let h=r?r.nodes[u]:null,m=l.multiply_adds&&l.moved_bytes?2*l.multiply_adds/l.moved_bytes:null,f=r?r.rates[u]:{gflops:null,gbytes:null,roof:null,
bound:null};return{...l,...f,index:u,intensity:m,kernelName:n[l.kernel].name,took:h,share:h===null?null:h/o,error:a.get(u)?.error??null}});return{...t,rows:s,total:o}}
var Qo=(t,e)=>[...t].filter(n=>n.took).sort((n,r)=>r.took-n.took).slice(0,e);var yn=(t,e,n)=>({name:t,value:e,show:r=>(n??q)(e(r)),number:!0});function Jo({subject:t,pick:e}){let{numbers:n}=t;return n?c(D,{children:[c("p",{class:"lead",children:[
T(n.samples)," ",n.samples===1?"sample":"samples","; layers beside ",N(n.reference),n.trade?`; ${N(n.trade)}`:"","."]}),c("section",{class:"card",children:[c("h\
2",{children:"Outputs"}),c(K,{caption:"Outputs",rows:n.outputs.map((r,i)=>({...r,key:i})),first:{column:1,down:!0},columns:[{name:"output",value:r=>r.name,show:r=>z(
r.name)},...Zo,{name:"beside",value:r=>r.reference,show:r=>N(r.reference)}]})]}),c("section",{class:"card",children:[c("h2",{children:"Layers, the worst first"}),
n.layers.length?c(K,{caption:"Error of every layer",rows:n.layers.map((r,i)=>({...r,key:i})),first:{column:1,down:!0},onPick:r=>r.node!==null&&e(r.node),columns:[
{name:"tensor",value:r=>r.name,show:r=>c("span",{title:N(r.name),children:z(r.name)}),pick:!0},...Zo,{name:"node",value:r=>r.node,number:!0},{name:"nodes of the\
 model",value:r=>r.sources.join(", "),show:r=>z(r.sources.join(", "))}]}):c("p",{class:"note",children:"No tensor between kernels is in both."})]}),n.ranges.length>
0&&c("section",{class:"card",children:[c("h2",{children:"Ranges of quantized tensors"}),c("p",{class:"note",children:"How often each part of the range was met; \
the ends are where values are clipped."}),c("div",{class:"ranges",children:n.ranges.map((r,i)=>c(Zc,{row:r},i))})]})]}):c("p",{class:"card",children:["No number\
s were compared. ",c("code",{children:"sterna report MODEL --data samples.npz"})," compares every layer with the reference on these samples."]})}var Zo=[yn("lar\
gest error",t=>t.error),yn("mean error",t=>t.mean),yn("cosine",t=>t.cosine,t=>t===null?"":t.toFixed(6)),yn("largest value",t=>t.largest)];function Zc({row:t}){let e=Math.
max(...t.counts,1);return c("figure",{class:"range",children:[c("figcaption",{title:N(t.name),children:[z(t.name,30)," ",c("small",{children:[t.dtype,"; ",T(t.least),
" to ",T(t.greatest),"; ",st(t.clipped,2)," at the ends",t.scale?`; scale ${q(t.scale)}`:""]})]}),c("svg",{viewBox:`0 0 ${t.counts.length*10} 60`,preserveAspectRatio:"\
none",role:"img","aria-label":`Histogram of ${z(t.name,60)}`,children:t.counts.map((n,r)=>c("rect",{class:r===0||r===t.counts.length-1?"end":"",x:10*r,width:"9",
y:60-58*n/e,height:58*n/e},r))})]})}function jo({subject:t,go:e,pick:n}){let{time:r,totals:i,memory:o}=t;return c(D,{children:[c("dl",{class:"facts",children:[c(qt,{name:"target",value:N(t.target.
name??""),note:N(t.target.triple??"")}),c(qt,{name:"size",value:P(t.bytes),note:`${t.files.length} files; weights ${P(t.weights_bytes)}${t.code_bytes?`, code ${P(
t.code_bytes)}`:""}`}),o&&c(qt,{name:"arena",value:P(o.arena_bytes),note:o.live_bytes?`live-set lower bound ${P(o.live_bytes)}`:""}),i&&c(qt,{name:"multiply-add\
s",value:T(i.multiply_adds),note:jc(i.sizes)}),c(qt,{name:"nodes",value:T(t.nodes.length),note:`${T(t.kernels.length)} kernels`}),r?c(qt,{name:r.unit==="ns"?"ti\
me of a run":"instructions of a run",value:yt(r,r.median),note:vr(r)}):c(qt,{name:"time",value:"not measured",note:"--time measures it"})]}),r&&c("section",{class:"\
card",children:[c("h2",{children:"Where the time goes"}),c("ol",{class:"hot",children:Qo(t.rows,5).map(a=>c("li",{children:[c("button",{type:"button",class:"lin\
k",onClick:()=>n(a.index),title:N(W(a)),children:z(W(a),40)}),c("span",{class:"bar","aria-hidden":"true",children:c("i",{style:{width:`${100*a.share}%`}})}),c("\
span",{class:"number",children:st(a.share)}),c("span",{class:"number",children:yt(r,a.took)})]},a.index))}),c("p",{class:"note",children:["A name opens the node\
 in the graph. ",c("button",{type:"button",class:"link",onClick:()=>e("time"),children:"All nodes by time"})]})]}),c("section",{class:"card",children:[c("h2",{children:"\
Signature"}),c("div",{class:"scroll",tabIndex:0,role:"region","aria-label":"Signature",children:c("table",{children:[c("thead",{children:c("tr",{children:[c("th",
{scope:"col",children:"side"}),c("th",{scope:"col",children:"name"}),c("th",{scope:"col",children:"type"}),c("th",{scope:"col",children:"meaning"})]})}),c("tbod\
y",{children:["inputs","outputs"].flatMap(a=>t.signature[a].map((s,l)=>c("tr",{children:[c("td",{children:a.slice(0,-1)}),c("td",{class:"text",children:c("b",{title:N(
s.name),children:z(s.name)})}),c("td",{class:"text",children:z(It(s),80)}),c("td",{class:"text",children:[N(s.note),s.labels.length?c(Jc,{labels:s.labels}):""]})]},
`${a}${l}`)))})]})})]}),c("section",{class:"card",children:[c("h2",{children:"Files"}),c(K,{caption:"Files",rows:t.files.map(a=>({...a,key:a.name})),first:{column:1,
down:!0},columns:[{name:"file",value:a=>a.name,show:a=>N(a.name)},{name:"bytes",value:a=>a.bytes,show:a=>T(a.bytes),number:!0},{name:"what",value:a=>a.role},{name:"\
hash",value:a=>a.hash,show:a=>c("code",{children:a.hash??""})}]})]}),c("section",{class:"card",children:[c("h2",{children:"Layers by size"}),c(K,{caption:"Bytes\
 of every node",rows:t.rows,first:{column:3,down:!0},onPick:a=>n(a.index),columns:[{name:"#",value:a=>a.index,number:!0},{name:"nodes of the model",value:W,show:a=>c(
"span",{title:N(W(a)),children:z(W(a))}),pick:!0},{name:"kernel",value:a=>a.kernelName},{name:"weights",value:a=>a.weights_bytes,show:a=>T(a.weights_bytes),number:!0},
{name:"code",value:a=>a.code_bytes,show:a=>T(a.code_bytes),number:!0},{name:"multiply-adds",value:a=>a.multiply_adds,show:a=>T(a.multiply_adds),number:!0}]})]}),
c("section",{class:"card",children:[c("h2",{children:"How it was made"}),c("dl",{class:"plain",children:tf(t).map(([a,s])=>c("div",{children:[c("dt",{children:a}),
c("dd",{children:c("code",{children:N(s)})})]},a))})]})]})}function qt({name:t,value:e,note:n}){return c("div",{children:[c("dt",{children:t}),c("dd",{children:[
e,n?c("small",{children:n}):null]})]})}function Jc({labels:t}){return c("details",{children:[c("summary",{children:"labels"}),c("p",{class:"labels",children:t.slice(
0,1e3).map(N).join(", ")})]})}var jc=t=>Object.entries(t??{}).map(([e,n])=>`${z(e,20)} = ${T(n)}`).join(", ");function vr(t){if(t.unit!=="ns")return`counted on ${N(
t.board??t.where)}, emulated${t.stack_bytes?`; stack ${T(t.stack_bytes)} B`:""}`;let e=t.threads===1?"1 thread":`${t.threads} threads`;return`median of ${t.runs}\
 runs, fastest ${$t(t.fastest)}; ${e}${t.where==="here"?"":` on ${N(t.where)}`}${t.machine?`; ${N(t.machine)}`:""}`}function tf(t){let{options:e,source:n}=t;return[
["command",t.command],["model",t.model],["bundle",t.directory],["compiler",t.producer],["toolchain",e.toolchain],["generator",e.generator],["needs of the proces\
sor",t.target.cpu_features.join(", ")],["hash of graph.json",t.hash],["SHA-256 of the model",n?.sha256],["format of the model",n?.format],["traded for speed",t.
math&&`bound ${t.math.bound}, largest error ${t.math.error}`],["tuned kernels",t.tuning&&`${t.tuning.kernels}, snapshot ${t.tuning.snapshot}`],["budgets",t.fitted]].
filter(([,i])=>i)}function ta({subject:t,pick:e}){let{time:n,rows:r}=t,i=at(()=>n?ef(n):[],[n]),[o,a]=X(!1);if(!n)return c("p",{class:"card",children:["No time was measured. ",c(
"code",{children:"sterna report BUNDLE --time"})," measures it here, with ",c("code",{children:"--on DEVICE"})," elsewhere."]});let s=n.unit==="ns";return c(D,{
children:[c("p",{class:"lead",children:[yt(n,n.median)," for a run: ",vr(n),"."]}),c("section",{class:"card",children:[c("h2",{children:"In the order of the run"}),
c(nf,{rows:r,time:n,pick:e})]}),c("section",{class:"card",children:[c("h2",{children:"Nodes"}),c("div",{class:"tools",role:"group","aria-label":"Order",children:[
c("button",{type:"button","aria-pressed":!o,onClick:()=>a(!1),children:"By share"}),c("button",{type:"button","aria-pressed":o,onClick:()=>a(!0),children:"In or\
der"})]}),c(K,{caption:s?"Time of every node":"Instructions of every node",rows:r,columns:i,first:o?{column:0,down:!1}:{column:3,down:!0},onPick:l=>e(l.index),words:"\
a heading sorts; a name opens the graph"},String(o)),s&&!n.limits&&c("p",{class:"note",children:"What that machine can do at most is not known: limits are measu\
red on this machine only."})]}),s&&n.limits&&c("section",{class:"card",children:[c("h2",{children:"Roofline"}),c(mn,{rows:r,limits:n.limits,pick:e})]})]})}function ef(t){
let e=t.unit==="ns",n=e?t.median<1e5?{name:"\xB5s",size:1e3,digits:2}:{name:"ms",size:1e6,digits:4}:{name:"instructions",size:1},r=[{name:"GFLOP/s",value:o=>o.gflops,
show:o=>q(o.gflops),number:!0},{name:"GB/s",value:o=>o.gbytes,show:o=>q(o.gbytes),number:!0}],i=[{name:"% of roofline",value:o=>o.roof===null?null:100*o.roof,show:o=>st(
o.roof,0),number:!0},{name:"bound by",value:o=>o.bound??""}];return[{name:"#",value:o=>o.index,number:!0},{name:"nodes of the model",value:W,show:o=>c("span",{title:N(
W(o)),children:z(W(o),44)}),pick:!0},{name:"kernel",value:o=>o.kernelName,show:o=>N(o.kernelName)},{name:n.name,value:o=>o.took/n.size,show:o=>e?(o.took/n.size).
toFixed(n.digits):T(o.took),number:!0},{name:"share",value:o=>o.share,show:o=>c(D,{children:[c("span",{class:"bar","aria-hidden":"true",children:c("i",{style:{width:`${100*
o.share}%`}})}),st(o.share)]}),number:!0},...e?r:[],...e&&t.limits?i:[],{name:"multiply-adds",value:o=>o.multiply_adds,show:o=>T(o.multiply_adds),number:!0},{name:"\
moved",value:o=>o.moved_bytes,show:o=>P(o.moved_bytes),number:!0}]}function nf({rows:t,time:e,pick:n}){let r=t.reduce((a,s)=>a+s.took,0)||1,i=0,o=Math.max(...t.
map(a=>a.took));return c("svg",{class:"strip",viewBox:"0 0 1000 40",preserveAspectRatio:"none",role:"group","aria-label":"The run from left to right; every node\
 is as wide as it is long",children:t.map(a=>{let[s,l]=[1e3*i/r,1e3*a.took/r];return i+=a.took,l<.05?null:c("rect",{x:s,width:l,height:"40",style:{"--heat":`${Math.
round(100*a.took/o)}%`},onClick:()=>n(a.index),children:c("title",{children:`${z(W(a),60)}: ${yt(e,a.took)}`})},a.index)})})}var Ht=JSON.parse(document.getElementById("data").textContent),te=Ht.subjects.map(Ko),At=[{id:"compare",name:"Compare",show:hi,when:()=>Ht.comparison},{id:"summ\
ary",name:"Summary",show:jo},{id:"graph",name:"Graph",show:Xo},{id:"time",name:"Time",show:ta},{id:"memory",name:"Memory",show:Go},{id:"numbers",name:"Numbers",
show:Jo},{id:"boards",name:"Boards",show:li,when:()=>Ht.boards.length||Ht.targets.length}].filter(t=>!t.when||t.when()),ea=()=>At.find(t=>`#${t.id}`===location.
hash)??At[0];function rf(){let[t,e]=X(ea),[n,r]=X(0),[i,o]=X(null),[a,s]=X(!1);Ct(()=>{let d=()=>si(()=>s(!0)),_=()=>s(!1);return addEventListener("beforeprint",
d),addEventListener("afterprint",_),()=>(removeEventListener("beforeprint",d),removeEventListener("afterprint",_))},[]),Ct(()=>{let d=()=>e(ea());return addEventListener(
"hashchange",d),()=>removeEventListener("hashchange",d)},[]);let l=d=>{e(At.find(_=>_.id===d));try{history.replaceState(null,"",`#${d}`)}catch{}},u=(d,_=n)=>{r(
_),o(d),l("graph")},h=({key:d},_)=>{let v={ArrowRight:1,ArrowLeft:-1}[d];if(!v)return;let b=At[(_+v+At.length)%At.length];l(b.id),document.getElementById(`tab-${b.
id}`).focus()},m=te[n],f=t.show;return c(D,{children:[c("header",{children:[c("h1",{title:N(m.name),children:z(m.name,40)}),c("nav",{role:"tablist","aria-label":"\
Parts of the report",children:At.map((d,_)=>c("button",{type:"button",role:"tab",id:`tab-${d.id}`,"aria-controls":"panel","aria-selected":d===t,tabIndex:d===t?0:
-1,onClick:()=>l(d.id),onKeyDown:v=>h(v,_),children:d.name},d.id))}),te.length>1&&t.id!=="compare"&&c("label",{class:"which",children:["of ",c("select",{value:n,
onChange:d=>(r(Number(d.currentTarget.value)),o(null)),children:te.map((d,_)=>c("option",{value:_,children:z(br(d,_),40)},_))})]})]}),c("main",{role:"tabpanel",
id:"panel","aria-labelledby":`tab-${t.id}`,children:[a&&At.filter(d=>d!==t&&d.id!=="graph").map(d=>{let _=d.show;return c("section",{children:[c("h2",{children:d.
name}),c(_,{report:Ht,subjects:te,subject:m,go:l,pick:u,picked:i,setPicked:o,label:br})]},d.id)}),c(f,{report:Ht,subjects:te,subject:m,go:l,pick:u,picked:i,setPicked:o,
label:br})]},`${t.id} ${n}`),c("footer",{children:["made by ",N(Ht.producer)]})]})}function br(t,e){return`${"AB"[e]}: ${t.directory??t.model??t.name} (${t.target.
name})`}document.title=`${N(te.map(t=>t.name).join(" and "))}: report`;Sn(c(rf,{}),document.getElementById("app"));})();
