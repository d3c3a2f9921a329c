/** The parts of the service's API that the studio uses, under the names that the studio uses. */

export type JobStatus = "queued" | "in_progress" | "held" | "completed" | "incomplete" | "failed" | "cancelled";

export interface PlanStep {
  number: number;
  name: string | null;
  instruction: string | null;
  /** What the generator is told; null for a step of text only. */
  prompt: string | null;
  caption: string | null;
  sources?: number[] | null;
}

export interface Plan {
  steps: PlanStep[];
  reasoning?: string;
}

export interface Verdict {
  outcome: "accepted" | "rejected" | "unreadable";
  reasoning: string;
  refined_prompt: string | null;
  confidence: number | null;
}

export interface ApiError {
  message: string;
  code: string | null;
  nearest?: string[];
}

export interface DocumentAttempt {
  number: number;
  prompt: string;
  seed: number;
  picture: string;
  verdict: Verdict | null;
  draw_seconds?: number;
  judge_seconds?: number;
  cost?: number | null;
  generator?: string | null;
}

export interface DocumentStep {
  number: number;
  text: string;
  picture: string | null;
  accepted: boolean;
  shown: number | null;
  forced: boolean;
  finished: boolean;
  by_hand?: string | null;
  attempts: DocumentAttempt[];
}

export interface Decision {
  kind: string;
  step?: number;
  attempt?: number | null;
  undone: boolean;
}

export interface DocumentFacts {
  id: string;
  status: JobStatus;
  created_at: number;
  finished_at: number | null;
  title: string;
  error: ApiError | null;
  previous_response_id: string | null;
  cancelling: boolean;
  held: boolean;
  parent: string | null;
  request: { text?: string; picture?: string | null }[];
  links: Record<string, string>;
  reason?: string;
  plan?: Plan | null;
  steps?: DocumentStep[];
  seed?: number;
  notes?: string[];
  forced?: number[];
  calls?: { planner: number; critic: number; generator: number; repeated: number };
  cost?: number | null;
  seconds?: number;
  models?: { planner: string; critic: string; generator: string };
  profile?: string | null;
  command?: string | null;
  decisions?: Decision[];
}

/** A line of a run's journal, or a change of its job's state. */
export interface JournalEvent {
  type: string;
  sequence_number: number;
  time?: number;
  role?: "planner" | "critic" | "generator";
  call?: number;
  step?: number;
  attempt?: number | null;
  plan?: Plan;
  prompt?: string | null;
  seed?: number;
  picture?: string;
  seconds?: number;
  cost?: number | null;
  text?: string;
  finish_reason?: string;
  usage?: Record<string, number>;
  error?: string | ApiError | null;
  transient?: boolean;
  verdict?: Verdict;
  accepted?: boolean;
  forced?: boolean;
  keep?: Record<string, number>;
  status?: string;
  reason?: string;
}

export interface Profile {
  name: string;
  description: string;
  notes: string[];
  models: { planner: string; critic: string; generator: string };
  max_attempts: number;
  max_steps: number;
  takes_pictures: boolean;
  examples: { text: string }[];
  strictness: { name: string; max_attempts: number }[];
}

export interface ExportFormat {
  format: string;
  available: boolean;
  missing: string | null;
  media_type: string;
}

export interface Start {
  version: string;
  signed_in: boolean;
  needs_key: boolean;
  guest?: boolean;
  can_manage: boolean;
  models_state: "loading" | "ready" | "failed";
  default_profile: string;
  profiles: Profile[];
  exports: ExportFormat[];
  limits: { max_pictures: number; max_picture_bytes: number; max_text: number };
}

export interface GalleryItem {
  id: string;
  status: JobStatus;
  title: string;
  created_at: number;
  finished_at: number | null;
  profile: string | null;
  steps: number;
  pictures: number;
  forced: number;
  seconds: number | null;
  cost: number | null;
  cover: string | null;
  alt: string | null;
  parent: string | null;
}

export interface GalleryPage {
  data: GalleryItem[];
  total: number;
  cursor: string | null;
  profiles?: string[];
  outcomes?: Record<string, number>;
}

export interface QueueItem {
  id: string;
  title: string;
  status: JobStatus;
  created_at: number;
  profile: string | null;
  step: number | null;
  steps: number | null;
  error: string | null;
  cover: string | null;
}

export interface Queue {
  paused: boolean;
  running: QueueItem[];
  waiting: QueueItem[];
  failed: QueueItem[];
}
