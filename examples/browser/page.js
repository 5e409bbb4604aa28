import { choose, findServed } from "./bundle.js";
import { start as startDrawing } from "./draw.js";
import { start as startMeasuring } from "./measure.js";
import { start as startPictures } from "./picture.js";

const tabs = [...document.querySelectorAll('[role="tab"]')];
const panel = (tab) => document.getElementById(tab.getAttribute("aria-controls"));

function show(chosen) {
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
    panel(tab).hidden = tab !== chosen;
  }
  document.getElementById("bundle").hidden = panel(chosen).id === "draw";
  document.dispatchEvent(new CustomEvent("tab", { detail: panel(chosen).id }));
}

tabs.forEach((tab, n) => {
  tab.addEventListener("click", () => (location.hash = panel(tab).id));
  tab.addEventListener("keydown", ({ key }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!step) return;
    const next = tabs[(n + step + tabs.length) % tabs.length];
    next.focus();
    location.hash = panel(next).id;
  });
});
const follow = () => show(tabs.find((tab) => `#${panel(tab).id}` === location.hash) ?? tabs[0]);
addEventListener("hashchange", follow);

startDrawing();
startPictures();
startMeasuring();
follow();
findServed();
document.getElementById("files").addEventListener("change", ({ target }) => choose([...target.files]));
