/** Incremental parser of server-sent events. */

export interface ServerEvent {
  type: string;
  data: string;
}

export class EventParser {
  private rest = "";
  private type = "";
  private data: string[] = [];

  push(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.rest + piece).split(/\r\n|\n/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.data.length) events.push({ type: this.type, data: this.data.join("\n") });
        this.type = "";
        this.data = [];
      } else if (line.startsWith("event:")) this.type = line.slice(6).trim();
      else if (line.startsWith("data:")) this.data.push(line.slice(5).replace(/^ /, ""));
    }
    return events;
  }
}

/** Yields the events of a response until its stream ends. */
export async function* readEvents(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}
