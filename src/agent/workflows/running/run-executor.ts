import { sleep } from '../../../util/sleep.ts';
import type { SpanResult } from '../../../tracing/index.ts';
import { dispatchSegment, type DispatchedSegment } from './dispatch.ts';
import { LiveRun, type SegmentResult } from './live-run.ts';
import { type GateOpening, opensByItself, waitForGate } from './wait-for-gate.ts';
import { discardStagedOfEndedRuns } from './questions.ts';
import { findRun, listLiveRuns, type RunRow } from './rows.ts';
import type { UnnumberedRunEvent } from './segment.ts';
import { RunSlot } from './run-slot.ts';
import { SlotLease } from './slot-lease.ts';
import { parseGate, type StoredGate } from './stored-gate.ts';
import type { RunServices } from './run-services.ts';

interface SegmentStart extends DispatchedSegment {
  readonly firedAt?: string;
  readonly traceparent?: string | undefined;
  /** The segment continues after a crash or a stop of the host. */
  readonly recovered?: true;
}

/** Actor of the host's own acts. */
const hostActor = 'host';

/** Executes the runs of this host: the live one, and those that wait at gates. */
export class RunExecutor {
  readonly slot = new RunSlot();
  readonly #services: RunServices;
  readonly #stopping = new AbortController();
  readonly #live = new Map<string, LiveRun>();
  /** Waits of suspended runs at gates that open by themselves, by run id. */
  readonly #gateWaits = new Map<string, AbortController>();
  readonly #backgroundWork = new Set<Promise<void>>();
  #served = 0;

  constructor(services: RunServices) {
    this.#services = services;
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
    const { store, log } = this.#services;
    await discardStagedOfEndedRuns(this.#services);
    const rows = await store.read((db) => listLiveRuns(db, store.endpointId));
    for (const row of rows.toReversed()) {
      const gate = parseGate(row.gate);
      if (row.state === 'suspended') {
        if (gate) this.waitAtGate(row.id, gate);
        continue;
      }
      const nextSeq = await store.read((db) => log.nextSeq(db, row.id));
      const startSegment = () => this.startSegment({ row, nextSeq, recovered: true });
      if (this.slot.tryAcquire(row.id)) startSegment();
      else this.#runInBackground(() => this.slot.acquire(row.id, this.#stopping.signal).then(startSegment));
    }
  }

  /** Starts a segment. The run must hold the slot, and frees it when the segment ends. */
  startSegment({ row, nextSeq, traceparent, ...options }: SegmentStart): void {
    const { log, tracer } = this.#services;
    const writer = log.open<UnnumberedRunEvent>(row.id, { nextSeq });
    const span = tracer.startSpan('run', row.id, { workflow: row.workflow }, { traceparent });
    const stopping = this.#stopping.signal;
    const lease = new SlotLease(this.slot, row.id);
    const liveRun = new LiveRun({ services: this.#services, span, row, lease, writer, stopping, ...options });
    this.#live.set(row.id, liveRun);
    this.#runInBackground(async () => {
      const result = await liveRun.runSegment();
      span.end(segmentSpanResult(result));
      // The last text deltas may be lost; the error is reported.
      await writer.end().catch((error: unknown) => this.#services.onFault(`the stream of ${row.id}`, error));
      this.#live.delete(row.id);
      lease.close();
      if (result.kind === 'ended' || (result.kind === 'suspended' && result.gate.step === undefined))
        this.#served += 1;
      if (result.kind === 'suspended') this.waitAtGate(row.id, result.gate);
    });
  }

  /** Waits in the background until the gate opens, and then for the slot. */
  waitAtGate(id: string, gate: StoredGate): void {
    if (!opensByItself(gate) || this.#stopping.signal.aborted) return;
    const waitOver = new AbortController();
    this.#gateWaits.set(id, waitOver);
    this.#runInBackground(() =>
      this.#waitAndDispatch(id, gate, AbortSignal.any([waitOver.signal, this.#stopping.signal])),
    );
  }

  /** Ends the wait at the gate of a run. */
  stopWaitingAtGate(id: string): void {
    this.#gateWaits.get(id)?.abort(new Error(`the run ${id} has left its gate`));
    this.#gateWaits.delete(id);
  }

  /**
   * Opens the next segment of a run that holds the slot.
   * @returns false, with the slot freed, when it has left its gate
   */
  async dispatchAndStart(
    row: RunRow,
    opening: GateOpening,
    act: Parameters<typeof dispatchSegment>[3],
  ): Promise<boolean> {
    let dispatched: DispatchedSegment | undefined;
    try {
      dispatched = await dispatchSegment(this.#services, row, opening, act);
    } finally {
      if (!dispatched) this.slot.release(row.id);
    }
    if (!dispatched) return false;
    this.stopWaitingAtGate(row.id);
    const { firedAt, traceparent } = opening;
    this.startSegment({ ...dispatched, traceparent, ...(firedAt === undefined ? {} : { firedAt }) });
    return true;
  }

  /** Stops live segments; the next start of the host continues them. */
  async close(): Promise<void> {
    this.#stopping.abort(new Error('the host was stopped'));
    await Promise.allSettled(this.#backgroundWork);
  }

  async #waitAndDispatch(id: string, gate: StoredGate, signal: AbortSignal): Promise<void> {
    const { store, timings, onFault } = this.#services;
    while (!signal.aborted) {
      try {
        // The run may have left its gate since its segment ended.
        const suspendedRun = await store.read((db) => findRun(db, id));
        if (suspendedRun?.state !== 'suspended') return;
        const opening = await waitForGate(this.#services, id, gate, signal);
        await this.slot.acquire(id, signal);
        const row = await this.#withSlot(id, () => store.read((db) => findRun(db, id)));
        if (row) await this.dispatchAndStart(row, opening, { verb: 'run.continue', by: hostActor });
        else this.slot.release(id);
        return;
      } catch (error) {
        if (signal.aborted) return;
        onFault(`the gate of ${id}`, error);
        await sleep(timings.storeRetryMs, signal).catch(() => undefined);
      }
    }
  }

  /** Runs a function while holding the slot, and frees the slot if it fails. */
  async #withSlot<T>(id: string, callback: () => Promise<T>): Promise<T> {
    try {
      return await callback();
    } catch (error) {
      this.slot.release(id);
      throw error;
    }
  }

  #runInBackground(callback: () => Promise<void>): void {
    const promise = callback()
      .catch((error: unknown) => this.#services.onFault('runs', error))
      .finally(() => this.#backgroundWork.delete(promise));
    this.#backgroundWork.add(promise);
  }
}

/** Result of a segment's span. A segment that suspended at a gate is ok. */
function segmentSpanResult(result: SegmentResult): SpanResult {
  if (result.kind === 'stopped') return { outcome: 'failed', code: 'shutdown' };
  switch (result.outcome) {
    case 'failed':
      return { outcome: 'failed', code: 'run_failed' };
    case 'cancelled':
      return { outcome: 'abandoned', code: 'cancelled' };
    case 'completed':
    case undefined:
      return { outcome: 'ok' };
  }
}
