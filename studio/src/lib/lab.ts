/** The views for studying models and documents, apart from making and reading. */
import { links } from "./route";
import { text } from "./text";

export interface LabView {
  view: string;
  link: string;
  name: string;
  what: string;
}

export function labViews(guest: boolean): LabView[] {
  const views = [
    { view: "compare", link: links.compare(), name: text.nav.compare, what: text.lab.compare },
    { view: "judge", link: links.judge(), name: text.nav.judge, what: text.lab.judge },
    { view: "queue", link: links.queue, name: text.nav.queue, what: text.lab.queue },
    { view: "reports", link: links.reports, name: text.reports.heading, what: text.lab.reports },
  ];
  return guest ? views.slice(0, 3) : views;
}
