import { expect } from 'vitest';
import type { Actor, HostClient } from './host-client.ts';
import { pause } from './process.ts';

interface Steered {
  /** Acknowledged, and nothing was asked of it since. */
  certain?: 'cancelled' | 'resumed';
  /** Cycles that were fired: acknowledged, and asked for. */
  fired: number;
  requested: number;
}

interface Row {
  readonly id: string;
  readonly workflow: string;
  readonly state: string;
  readonly waiting_on?: string;
  readonly wrapper_cycle?: number;
}

/** Steers runs: fires an armed one, pauses, resumes and cancels, and tells of events that others wait for. */
export class RunActor implements Actor {
  readonly #client: HostClient;
  readonly #steered = new Map<string, Steered>();
  /** Runs that waited for the event when it was sent. */
  readonly #signaled = new Set<string>();
  #lastSignal = -1;
  /** The armed run, until it receives its first request. */
  #next: Row | undefined;
  #checks = 0;
  #count = 0;

  constructor(client: HostClient) {
    this.#client = client;
  }

  readonly acts = [() => this.#fire(), () => this.#steer(), () => this.#sendEvent()];

  async check(): Promise<void> {
    for (const [id, steered] of this.#steered) await this.#checkOne(id, steered);
    this.#steered.clear();
    // A paused run keeps the place of the others.
    for (const { id, state } of await this.#runs())
      if (state === 'paused') await this.#client.ask('POST', `/agent/v1/runs/${id}/resume`);
    const until = performance.now() + 300_000;
    for (const id of this.#signaled)
      for (;;) {
        const { state, waiting_on } = await this.#run(id);
        if (state !== 'suspended' || waiting_on !== 'event') break;
        const message = `${id} missed its event (${this.#client.about})`;
        expect(performance.now(), message).toBeLessThan(until);
        await pause(50);
      }
    this.#signaled.clear();
    // Every other time it is fired before anybody else takes the place of the one run.
    this.#checks += 1;
    if (!(await this.#armed())) await this.#start('armed');
    this.#next = this.#checks % 2 === 0 ? await this.#armed() : undefined;
  }

  /** Fires the armed run, which now and then is a new one. */
  async #fire(): Promise<void> {
    const next = this.#next;
    this.#next = undefined;
    const waiting = next ?? (await this.#armed());
    if (!waiting) return await this.#start('armed');
    const { id } = waiting;
    if (!next && this.#count++ % 5 === 4) return await this.#cancel(id);
    const steered = this.#of(id, waiting.wrapper_cycle ?? 0);
    steered.requested += 1;
    const { status } = await this.#client.ask('POST', `/agent/v1/runs/${id}/run-now`);
    expect([200, 409], `run-now of ${id} (${this.#client.about})`).toContain(status);
    if (status === 200) steered.fired += 1;
    else {
      steered.requested -= 1;
      await pause(10);
    }
  }

  /** Pauses what runs, and lets it go on or ends it. */
  async #steer(): Promise<void> {
    const running = (await this.#runs()).find(({ state }) => state === 'running' || state === 'paused');
    if (!running) return await pause(5);
    const { id } = running;
    const paused = await this.#ask(id, 'pause', [202, 404, 409]);
    if (paused !== 202 && running.state !== 'paused') return await pause(5);
    while ((await this.#run(id)).state === 'running') await pause(5);
    if (this.#count++ % 3 === 0) return await this.#cancel(id);
    const resumed = await this.#ask(id, 'resume', [200, 409]);
    if (resumed === 200) this.#of(id).certain = 'resumed';
  }

  async #sendEvent(): Promise<void> {
    const runs = await this.#runs();
    const waiting = runs.filter(({ state, waiting_on }) => state === 'suspended' && waiting_on === 'event');
    if (waiting.length < 2) await this.#start('awaiting');
    const { status, text } = await this.#client.ask('POST', '/agent/v1/events', {
      name: 'user.go',
      data: {},
    });
    expect(status, this.#client.about).toBe(202);
    const { seq } = JSON.parse(text) as { seq: number };
    expect(seq, `the number of an event (${this.#client.about})`).toBeGreaterThan(this.#lastSignal);
    this.#lastSignal = seq;
    for (const { id } of waiting) this.#signaled.add(id);
    await pause(40);
  }

  async #start(workflow: string): Promise<void> {
    const response = await this.#client.open('POST', `/agent/v1/workflows/${workflow}/runs`, {});
    expect([200, 409], `a run of ${workflow} (${this.#client.about})`).toContain(response.status);
    if (response.status === 200) this.#client.acknowledged++;
    for await (const _ of this.#client.lines(response));
    if (response.status === 409) await pause(10);
  }

  async #cancel(id: string): Promise<void> {
    const { status } = await this.#client.ask('POST', `/agent/v1/sessions/${id}/cancel`);
    expect([202, 404, 409], `cancel of ${id} (${this.#client.about})`).toContain(status);
    if (status === 202) this.#of(id).certain = 'cancelled';
  }

  async #ask(id: string, verb: 'pause' | 'resume', statuses: readonly number[]): Promise<number> {
    const steered = this.#steered.get(id);
    if (steered?.certain === 'resumed') delete steered.certain;
    const { status, text } = await this.#client.ask('POST', `/agent/v1/runs/${id}/${verb}`);
    expect(statuses, `${verb} of ${id}: ${text} (${this.#client.about})`).toContain(status);
    return status;
  }

  async #checkOne(id: string, { certain, fired, requested }: Steered): Promise<void> {
    const { state, wrapper_cycle: cycle = 0 } = await this.#run(id);
    const message = `${id}, ${certain ?? 'fired'}, is ${state} in cycle ${cycle} (${this.#client.about})`;
    if (certain === 'cancelled') expect(state, message).toBe('cancelled');
    if (certain === 'resumed') expect(state, message).not.toBe('paused');
    if (requested === 0) return;
    expect(cycle, message).toBeGreaterThanOrEqual(fired);
    expect(cycle, message).toBeLessThanOrEqual(requested);
  }

  #of(id: string, cycle = 0): Steered {
    const steered = this.#steered.get(id) ?? { fired: cycle, requested: cycle };
    this.#steered.set(id, steered);
    return steered;
  }

  async #armed(): Promise<Row | undefined> {
    const runs = await this.#runs();
    return runs.find(({ workflow, state }) => workflow === 'armed' && state === 'suspended');
  }

  async #runs(): Promise<Row[]> {
    const { text } = await this.#client.ask('GET', '/agent/v1/workflows/runs?limit=1000');
    return JSON.parse(text) as Row[];
  }

  async #run(id: string): Promise<Row> {
    return (await this.#client.json('GET', `/agent/v1/runs/${id}`)) as unknown as Row;
  }
}
