import type { HostChange } from '../../web/api/host-connection.ts';

export interface StreamFrame {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: {
    readonly resumed?: boolean;
    readonly topics?: readonly string[];
    readonly changes?: readonly HostChange[];
  };
}

/** Follows `GET /host/v1/events` of a host. */
export class ChangeStream {
  readonly frames: StreamFrame[] = [];
  /** Resolves when the stream ends. */
  readonly end: Promise<void>;
  readonly #abort = new AbortController();
  #arrived = Promise.withResolvers<void>();

  private constructor(response: Response) {
    this.end = this.#read(response).catch(() => undefined);
  }

  /** Resolves with the stream when its first event is there. */
  static async open(
    url: string,
    { after, headers = {} }: { after?: string; headers?: Record<string, string> } = {},
  ): Promise<ChangeStream> {
    const response = await fetch(`${url}/host/v1/events${after === undefined ? '' : `?after=${after}`}`, {
      headers,
    });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    const stream = new ChangeStream(response);
    await stream.until(() => stream.frames.length > 0);
    return stream;
  }

  get lastId(): string | undefined {
    return this.frames.findLast(({ id }) => id !== undefined)?.id;
  }

  /** All changes so far, as `topic` or `topic id`. */
  get changes(): string[] {
    return this.frames.flatMap(({ data }) =>
      (data.changes ?? []).map(({ topic, id }) => (id === undefined ? topic : `${topic} ${id}`)),
    );
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await this.#arrived.promise;
  }

  /** Resolves when a change of the topic arrives after this call. */
  async next(topic: string, id?: string): Promise<void> {
    const from = this.changes.length;
    const wanted = id === undefined ? topic : `${topic} ${id}`;
    await this.until(() => this.changes.slice(from).includes(wanted));
  }

  close(): void {
    this.#abort.abort();
  }

  async #read(response: Response): Promise<void> {
    let rest = '';
    const text = response.body?.pipeThrough(new TextDecoderStream());
    const reader = text?.getReader();
    this.#abort.signal.addEventListener('abort', () => void reader?.cancel().catch(() => undefined));
    for (;;) {
      const piece = await reader?.read();
      if (!piece || piece.done) return;
      const frames = (rest + piece.value).split('\n\n');
      rest = frames.pop() ?? '';
      for (const frame of frames) this.#add(frame);
      this.#arrived.resolve();
      this.#arrived = Promise.withResolvers();
    }
  }

  #add(frame: string): void {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(frame)?.[1];
    const data = field('data');
    if (data !== undefined)
      this.frames.push({
        id: field('id'),
        event: field('event') ?? '',
        data: JSON.parse(data) as StreamFrame['data'],
      });
  }
}
