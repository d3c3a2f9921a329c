/** The values of the service's API, under the names that the studio uses. `npm run types` generates them. */
import type { components } from "./openapi";

type Schemas = components["schemas"];

export type DocumentFacts = Schemas["Document"];
export type JobStatus = DocumentFacts["status"];
export type DocumentError = Schemas["DocumentError"];
export type Plan = Schemas["Plan"];
export type Asset = Schemas["Asset"];
export type AssetKind = Asset["kind"];
export type PlanStep = Schemas["PlanStep"];
export type EditedPlan = Schemas["EditedPlan"];
export type Verdict = Schemas["Verdict"];
/** A line of a run's journal, or a change of its job's state. */
export type JournalEvent = Schemas["JournalEvent"];
export type Start = Schemas["Start"];
export type Gallery = Schemas["Gallery"];
export type GalleryItem = Schemas["GalleryItem"];
export type Queue = Schemas["Queue"];
export type QueueItem = Schemas["QueueItem"];
export type StepFacts = Schemas["Step"];
export type AttemptFacts = Schemas["Attempt"];
export type NewLabel = Schemas["NewLabel"];
export type RunLabel = Schemas["RunLabel"];
export type RunLabels = Schemas["RunLabels"];
export type JudgeItem = Schemas["JudgeItem"];
export type JudgeItems = Schemas["JudgeItems"];
export type JudgedPicture = Schemas["JudgedPicture"];
export type KindAgreement = Schemas["KindAgreement"];
export type RelatedItem = Schemas["RelatedItem"];
export type Kind = Schemas["Kind"];
export type Report = Schemas["Report"];
export type Reports = Schemas["Reports"];
export type Retried = Schemas["Retried"];

/** The events of one kind. */
export type EventOf<Type extends JournalEvent["type"]> = Extract<JournalEvent, { type: Type }>;
