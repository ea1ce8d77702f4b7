import { pause } from '../../../util/pause.ts';
import type { Ending } from '../../../watch/index.ts';
import { dispatch, type Dispatched } from './dispatch.ts';
import { LiveRun, type SegmentEnd } from './live-run.ts';
import { type Opening, opensItself, untilOpen } from './opening.ts';
import { withdrawOfEnded } from './questions.ts';
import { findRun, liveRuns, type RunRow } from './rows.ts';
import type { RunLine } from './segment.ts';
import { RunSlot } from './slot.ts';
import { readGate, type StoredGate } from './stored-gate.ts';
import type { RunWorld } from './world.ts';

interface Beginning extends Dispatched {
  readonly firedAt?: string;
  readonly traceparent?: string | undefined;
  /** The segment continues after a crash or a stop of the host. */
  readonly recovered?: true;
}

/** Actor of the host's own acts. */
const host = 'host';

/** Executes the runs of this host: the live one, and those that wait at gates. */
export class Runner {
  readonly slot = new RunSlot();
  readonly #world: RunWorld;
  readonly #stopping = new AbortController();
  readonly #live = new Map<string, LiveRun>();
  /** Waits of suspended runs at gates that open by themselves, by run id. */
  readonly #watches = new Map<string, AbortController>();
  readonly #working = new Set<Promise<void>>();
  #served = 0;

  constructor(world: RunWorld) {
    this.#world = world;
  }

  /** Ended runs, and ended cycles of scheduled and armed runs, since the start of the host. */
  get served(): number {
    return this.#served;
  }

  live(id: string): LiveRun | undefined {
    return this.#live.get(id);
  }

  /** Continues the live run and the waits at gates that the previous process left. */
  async recover(): Promise<void> {
    const { store, log } = this.#world;
    await withdrawOfEnded(this.#world);
    const rows = await store.read((db) => liveRuns(db, store.endpointId));
    for (const row of rows.toReversed()) {
      const gate = readGate(row.gate);
      if (row.state === 'suspended') {
        if (gate) this.arm(row.id, gate);
        continue;
      }
      const nextSeq = await store.read((db) => log.nextSeq(db, row.id));
      const begin = () => this.begin({ row, nextSeq, recovered: true });
      if (this.slot.tryTake(row.id)) begin();
      else this.#keep(() => this.slot.take(row.id, this.#stopping.signal).then(begin));
    }
  }

  /** Starts a segment. The run must hold the slot, and frees it when the segment ends. */
  begin({ row, nextSeq, traceparent, ...how }: Beginning): void {
    const { log, watch } = this.#world;
    const writer = log.open<RunLine>(row.id, { nextSeq });
    const work = watch.begin('run', row.id, { workflow: row.workflow }, { traceparent });
    const stopping = this.#stopping.signal;
    const live = new LiveRun({ world: this.#world, work, row, writer, stopping, ...how });
    this.#live.set(row.id, live);
    this.#keep(async () => {
      const end = await live.drive();
      work.end(endingOfSegment(end));
      // The last text deltas may be lost; the error is reported.
      await writer.end().catch((error: unknown) => this.#world.onFault(`the stream of ${row.id}`, error));
      this.#live.delete(row.id);
      this.slot.free(row.id);
      if (end.kind === 'ended' || (end.kind === 'suspended' && end.gate.step === undefined))
        this.#served += 1;
      if (end.kind === 'suspended') this.arm(row.id, end.gate);
    });
  }

  /** Waits in the background until the gate opens, and then for the slot. */
  arm(id: string, gate: StoredGate): void {
    if (!opensItself(gate) || this.#stopping.signal.aborted) return;
    const over = new AbortController();
    this.#watches.set(id, over);
    this.#keep(() => this.#watch(id, gate, AbortSignal.any([over.signal, this.#stopping.signal])));
  }

  /** Ends the wait at the gate of a run. */
  disarm(id: string): void {
    this.#watches.get(id)?.abort(new Error(`the run ${id} has left its gate`));
    this.#watches.delete(id);
  }

  /**
   * Opens the next segment of a run that holds the slot.
   * @returns false, with the slot freed, when it has left its gate
   */
  async goOn(row: RunRow, opening: Opening, act: Parameters<typeof dispatch>[3]): Promise<boolean> {
    let dispatched: Dispatched | undefined;
    try {
      dispatched = await dispatch(this.#world, row, opening, act);
    } finally {
      if (!dispatched) this.slot.free(row.id);
    }
    if (!dispatched) return false;
    this.disarm(row.id);
    const { firedAt, traceparent } = opening;
    this.begin({ ...dispatched, traceparent, ...(firedAt === undefined ? {} : { firedAt }) });
    return true;
  }

  /** Stops live segments; the next start of the host continues them. */
  async close(): Promise<void> {
    this.#stopping.abort(new Error('the host was stopped'));
    await Promise.allSettled(this.#working);
  }

  async #watch(id: string, gate: StoredGate, signal: AbortSignal): Promise<void> {
    const { store, pace, onFault } = this.#world;
    while (!signal.aborted) {
      try {
        // The run may have left its gate since its segment ended.
        const armed = await store.read((db) => findRun(db, id));
        if (armed?.state !== 'suspended') return;
        const opening = await untilOpen(this.#world, id, gate, signal);
        await this.slot.take(id, signal);
        const row = await this.#holding(id, () => store.read((db) => findRun(db, id)));
        if (row) await this.goOn(row, opening, { verb: 'run.continue', by: host });
        else this.slot.free(id);
        return;
      } catch (error) {
        if (signal.aborted) return;
        onFault(`the gate of ${id}`, error);
        await pause(pace.storeMs, signal).catch(() => undefined);
      }
    }
  }

  /** Runs a function while holding the slot, and frees the slot if it fails. */
  async #holding<T>(id: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.slot.free(id);
      throw error;
    }
  }

  #keep(work: () => Promise<void>): void {
    const working = work()
      .catch((error: unknown) => this.#world.onFault('runs', error))
      .finally(() => this.#working.delete(working));
    this.#working.add(working);
  }
}

/** Result of a segment's span. A segment that suspended at a gate is ok. */
function endingOfSegment(end: SegmentEnd): Ending {
  if (end.kind === 'stopped') return { outcome: 'failed', code: 'shutdown' };
  switch (end.outcome) {
    case 'failed':
      return { outcome: 'failed', code: 'run_failed' };
    case 'cancelled':
      return { outcome: 'abandoned', code: 'cancelled' };
    case 'completed':
    case undefined:
      return { outcome: 'ok' };
  }
}
