import { render } from "preact";
import { flushSync } from "preact/compat";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { Boards } from "./boards.jsx";
import { Compare } from "./compare.jsx";
import { seen, short } from "./format.js";
import { Graph } from "./graph.jsx";
import { withMeasured } from "./measured.js";
import { Memory } from "./memory.jsx";
import { prepared } from "./model.js";
import { Numbers } from "./numbers.jsx";
import { Summary } from "./summary.jsx";
import { Time } from "./time.jsx";
import "./page.css";

const report = withMeasured(JSON.parse(document.getElementById("data").textContent));
const subjects = report.subjects.map(prepared);

/** The tabs that a report has: those without anything to show are left out, and Compare comes first where there is one. */
const TABS = [
  { id: "compare", name: "Compare", show: Compare, ofAll: true, when: () => report.comparison },
  { id: "summary", name: "Summary", show: Summary },
  { id: "graph", name: "Graph", show: Graph },
  { id: "time", name: "Time", show: Time },
  { id: "memory", name: "Memory", show: Memory },
  { id: "numbers", name: "Numbers", show: Numbers },
  { id: "boards", name: "Boards", show: Boards, ofAll: true, when: () => report.boards.length || report.targets.length },
].filter((tab) => !tab.when || tab.when());

const asked = () => TABS.find((tab) => `#${tab.id}` === location.hash) ?? TABS[0];

function App() {
  const [tab, setTab] = useState(asked);
  const [which, setWhich] = useState(0);
  const [picked, setPicked] = useState(null);
  const [printed, setPrinted] = useState(false);
  // Before the first frame: programs print a page as soon as it is loaded.
  useLayoutEffect(() => {
    const before = () => flushSync(() => setPrinted(true));
    const after = () => setPrinted(false);
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => (removeEventListener("beforeprint", before), removeEventListener("afterprint", after));
  }, []);
  useEffect(() => {
    const follow = () => setTab(asked());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const go = (id) => {
    setTab(TABS.find((each) => each.id === id));
    try {
      history.replaceState(null, "", `#${id}`);
    } catch {
      // A frame without an origin of its own, as in notebooks, has no address to change.
    }
  };
  const pick = (node, subject = which) => {
    setWhich(subject);
    setPicked(node);
    go("graph");
  };
  const move = ({ key }, n) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!step) return;
    const next = TABS[(n + step + TABS.length) % TABS.length];
    go(next.id);
    document.getElementById(`tab-${next.id}`).focus();
  };
  const subject = subjects[which];
  // In print everything, but of graphs only the one that is open: it is drawn for the screen.
  const parts = printed
    ? TABS.filter((each) => each.id !== "graph" || each === tab).flatMap((each) => (each.ofAll || each.id === "graph" ? [[each, which]] : subjects.map((_, n) => [each, n])))
    : [[tab, which]];
  return (
    <>
      <header>
        <h1 title={seen(subject.name)}>{short(subject.name, 40)}</h1>
        <nav role="tablist" aria-label="Parts of the report">
          {TABS.map((each, n) => (
            <button key={each.id} type="button" role="tab" id={`tab-${each.id}`} aria-controls="panel" aria-selected={each === tab}
              tabIndex={each === tab ? 0 : -1} onClick={() => go(each.id)} onKeyDown={(event) => move(event, n)}>{each.name}</button>
          ))}
        </nav>
        {subjects.length > 1 && tab.id !== "compare" && (
          <label class="which">
            of <select value={which} onChange={(e) => (setWhich(Number(e.currentTarget.value)), setPicked(null))}>
              {subjects.map((each, n) => <option key={n} value={n}>{short(label(each, n), 40)}</option>)}
            </select>
          </label>
        )}
      </header>
      <main role="tabpanel" id="panel" aria-labelledby={`tab-${tab.id}`} key={`${tab.id} ${which}`}>
        {parts.map(([each, n]) => {
          const Part = each.show;
          const name = subjects.length > 1 && !each.ofAll ? `${each.name}, ${label(subjects[n], n)}` : each.name;
          return (
            <section key={`${each.id} ${n}`}>
              {printed && <h2 class="part">{name}</h2>}
              <Part report={report} subjects={subjects} subject={subjects[n]} go={go} pick={pick} picked={picked} setPicked={setPicked} label={label} />
            </section>
          );
        })}
      </main>
      <footer>made by {seen(report.producer)}</footer>
    </>
  );
}

function label(subject, n) {
  return `${"AB"[n]}: ${subject.directory ?? subject.model ?? subject.name} (${subject.target.name})`;
}

document.title = `${seen(subjects.map((each) => each.name).join(" and "))}: report`;
render(<App />, document.getElementById("app"));
