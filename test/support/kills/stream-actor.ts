import { expect } from 'vitest';
import type { Actor, HostClient } from './host-client.ts';
import { pause } from './process.ts';

interface SentTask {
  readonly body: object;
  /** Where its first line was seen. */
  id?: string;
}

/** Has tasks and runs done, and reads what they tell as they tell it. */
export class StreamActor implements Actor {
  readonly #client: HostClient;
  /** Lines that were seen, of streams that are not over. */
  readonly #seen = new Map<string, string[]>();
  /** Tasks, by their keys. */
  readonly #sent = new Map<string, SentTask>();
  #count = 0;

  constructor(client: HostClient) {
    this.#client = client;
  }

  readonly acts = [
    () => this.#task('worker'),
    () => this.#task('writer'),
    () => this.#run(),
    () => this.#resume(),
  ];

  async check(): Promise<void> {
    for (const [id, lines] of this.#seen) await this.#checkStream(id, lines);
    for (const [key, { body, id }] of this.#sent) {
      const first = await this.#idOf(body, key);
      // The same request again is the same task, whether its answer ever came or not.
      expect(await this.#idOf(body, key), this.#client.about).toBe(id ?? first);
      this.#sent.delete(key);
    }
  }

  async #task(agent: 'worker' | 'writer'): Promise<void> {
    const key = crypto.randomUUID();
    const sent: SentTask = { body: { agent, prompt: `Do ${key}.` } };
    this.#sent.set(key, sent);
    const response = await this.#client.open('POST', '/agent/v1/tasks', sent.body, {
      'idempotency-key': key,
    });
    expect(response.status, `a task (${this.#client.about})`).toBe(200);
    await this.#read(response, 'task_id', (id) => {
      sent.id = id;
    });
    // It is over, and read to its end.
    this.#sent.delete(key);
  }

  async #run(): Promise<void> {
    const name = this.#count++ % 3 === 0 ? 'gated' : 'plain';
    const response = await this.#client.open('POST', `/agent/v1/workflows/${name}/runs`, {});
    if (response.status === 409) return await pause(20);
    expect(response.status, `a run of ${name} (${this.#client.about})`).toBe(200);
    await this.#read(response, 'run_id');
  }

  /** Answers the gates of runs that wait at one. */
  async #resume(): Promise<void> {
    await pause(30);
    const { text } = await this.#client.ask('GET', '/agent/v1/workflows/runs');
    const runs = JSON.parse(text) as { id: string; state: string }[];
    for (const { id, state } of runs)
      if (state === 'suspended')
        await this.#client.ask('POST', `/agent/v1/runs/${id}/resume`, { inputs: {} });
  }

  async #read(response: Response, member: string, onId: (id: string) => void = () => {}): Promise<void> {
    let lines: string[] | undefined;
    for await (const line of this.#client.lines(response)) {
      if (lines) {
        lines.push(line);
        continue;
      }
      const id = this.#client.once((JSON.parse(line) as Record<string, unknown>)[member]);
      lines = [line];
      this.#seen.set(id, lines);
      this.#client.acknowledged++;
      onId(id);
    }
  }

  /** What was seen is stored, without holes, and it has one end. */
  async #checkStream(id: string, seen: readonly string[]): Promise<void> {
    const isTask = id.startsWith('t');
    const path = `/agent/v1/${isTask ? 'tasks' : 'runs'}/${id}`;
    const message = `${id} (${this.#client.about})`;
    const answer = await this.#client.ask('GET', `${path}/events`);
    expect(answer.status, message).toBe(200);
    const stored = answer.text.trimEnd().split('\n');
    expect(stored.slice(0, seen.length), message).toEqual(seen);
    const events = stored.map((line) => JSON.parse(line) as { seq: number; type: string; outcome?: string });
    expect(
      events.map((event) => event.seq),
      message,
    ).toEqual(events.map((_, index) => index));
    const { state } = await this.#client.json('GET', path);
    const ends = events.filter(({ type, outcome }) =>
      isTask ? ['answer', 'aborted'].includes(type) : type === 'run_end' && outcome !== 'suspended',
    );
    const over = state !== 'suspended';
    expect(ends, message).toEqual(over ? [events.at(-1)] : []);
    if (over) this.#seen.delete(id);
  }

  async #idOf(body: object, key: string): Promise<string> {
    const headers = { 'idempotency-key': key };
    const response = await this.#client.open('POST', '/agent/v1/tasks', body, headers);
    expect(response.status, this.#client.about).toBe(200);
    let id: string | undefined;
    for await (const line of this.#client.lines(response))
      id ??= (JSON.parse(line) as { task_id: string }).task_id;
    if (id === undefined) throw new Error(`a stream without lines (${this.#client.about})`);
    return id;
  }
}
