import { start as startDrawing } from "./draw.js";
import { start as startMeasuring } from "./measure.js";

const tabs = [...document.querySelectorAll('[role="tab"]')];

function show(name) {
  for (const tab of tabs) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", String(chosen));
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
}

for (const tab of tabs)
  tab.addEventListener("click", () => {
    location.hash = tab.getAttribute("aria-controls");
    show(tab.getAttribute("aria-controls"));
  });
if (location.hash === "#measure") show("measure");

startDrawing();
startMeasuring();
