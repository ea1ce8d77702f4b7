import { pause } from '../../../util/pause.ts';
import { AgentError } from '../../errors.ts';
import { StoreError } from '../../../store/index.ts';
import type { Work } from '../../../watch/index.ts';
import { parseEnsemble } from '../definition/parse.ts';
import { CancelledMeanwhile, EndedAlready, endEvent, type Ending, endRun, shortened } from './ending.ts';
import { Orders } from './orders.ts';
import { nextStep, resultOf } from './progress.ts';
import { askToRerun, withdrawAll } from './questions.ts';
import { changeRun, cycleOf, findSteps, type RunRow } from './rows.ts';
import type { RunLine, Segment } from './segment.ts';
import { doStep } from './step.ts';
import type { StoredGate } from './stored-gate.ts';
import { nextEntry, suspend, SuspendedAlready, type SuspendKind } from './suspending.ts';
import type { StreamWriter } from '../../event-log/writer.ts';
import type { RunWorld } from './world.ts';

/** Result of a segment. `stopped`: the host stops, and its next start continues the run. */
export type SegmentEnd =
  | { readonly kind: 'ended'; readonly outcome: Ending['outcome'] }
  /** With the outcome of the cycle, if one has ended. */
  | { readonly kind: 'suspended'; readonly gate: StoredGate; readonly outcome: Ending['outcome'] | undefined }
  | { readonly kind: 'stopped' };

interface LiveRunOptions {
  readonly world: RunWorld;
  /** Span of the segment. */
  readonly work: Work<'run'>;
  readonly row: RunRow;
  readonly writer: StreamWriter<RunLine>;
  readonly stopping: AbortSignal;
  /** The segment continues after a crash or a stop of the host. */
  readonly recovered?: true;
  /** Time at which the schedule fired for this cycle. */
  readonly firedAt?: string;
}

/** Actor of a cancellation that was requested before the host restarted. */
const beforeRestart = 'host';

/** Executes one segment of a run: its steps in sequence, until the run ends or suspends, or the host stops. */
export class LiveRun {
  readonly id: string;
  readonly orders: Orders;
  readonly #options: LiveRunOptions;
  #paused: boolean;
  /** Set when the workflow is parsed. */
  #segment: Segment | undefined;

  constructor(options: LiveRunOptions) {
    const { row, world } = options;
    this.id = row.id;
    this.#options = options;
    this.#paused = row.state === 'paused';
    const cancel = row.requested === 'cancel' ? beforeRestart : undefined;
    this.orders = new Orders({ pause: row.requested === 'pause', cancel }, world.clock, world.pace.checkMs);
  }

  /** Ends the pause. The database must already have the new state. */
  resume(): void {
    this.#paused = false;
    this.orders.tell();
  }

  /** Runs the segment. Never rejects: an error ends the run as failed, when the database accepts it. */
  async drive(): Promise<SegmentEnd> {
    const { world, stopping } = this.#options;
    let trouble: { readonly error: unknown } | undefined;
    for (;;) {
      try {
        return await (trouble ? this.#fail(trouble.error) : this.#work());
      } catch (error) {
        if (stopping.aborted) return { kind: 'stopped' };
        if (!(error instanceof AgentError || error instanceof StoreError))
          world.onFault(`the run ${this.id}`, error);
        const again = trouble !== undefined;
        trouble ??= { error };
        if (again) await pause(world.pace.storeMs, stopping).catch(() => undefined);
      }
    }
  }

  async #work(): Promise<SegmentEnd> {
    const { world, work, row, writer, stopping } = this.#options;
    const ensemble = parseEnsemble(row.source);
    const records = await world.store.read((db) => findSteps(db, row.id, cycleOf(row)));
    const segment: Segment = { world, work, row, ensemble, writer, records, orders: this.orders, stopping };
    this.#segment = segment;
    const parked = this.#options.recovered && (await this.#pickUp(segment));
    if (parked) return parked;
    for (;;) {
      if ((await this.#boundary()) === 'cancelled') return await this.#end({ outcome: 'cancelled' });
      const step = nextStep(ensemble.steps, records);
      if (!step)
        return await this.#endCycle(segment, { outcome: 'completed', result: resultOf(ensemble, records) });
      const result = await doStep(segment, step);
      if (result.kind === 'stopped') return result;
      if (result.kind === 'suspended') return await this.#suspend(segment, result.gate, 'interior_gate');
      if (result.kind === 'cancelled' || (result.kind === 'failed' && this.orders.cancel !== undefined))
        return await this.#end({ outcome: 'cancelled' });
      if (result.kind === 'failed')
        return await this.#endCycle(segment, {
          outcome: 'failed',
          error: `The step '${step.id}' failed: ${result.error}`,
        });
    }
  }

  /**
   * Recovers the interrupted step after a crash. A step that may have had side effects is rerun only after approval.
   */
  async #pickUp(segment: Segment): Promise<SegmentEnd | undefined> {
    const { row, records, world } = segment;
    const cut = [...records.values()].find(
      ({ state, attempts }) => (state === 'running' || state === 'interrupted') && attempts > 0,
    );
    if (!cut) return undefined;
    const { step } = cut;
    await withdrawAll(world, { runId: row.id, step }, 'host', `the step '${step}' was interrupted`);
    if (cut.side_effects === 0 || this.orders.cancel !== undefined) {
      const last_event = `continues with '${step}' after a restart`;
      await world.store.transaction((tx) => changeRun(tx, row.id, ['running'], { last_event }));
      return undefined;
    }
    const gate = await askToRerun(segment, step);
    return await this.#suspend(segment, gate, 'crash');
  }

  /** Step boundary, at which a run pauses or is cancelled. */
  async #boundary(): Promise<'go_on' | 'cancelled'> {
    const { stopping } = this.#options;
    for (;;) {
      stopping.throwIfAborted();
      if (this.orders.cancel !== undefined) return 'cancelled';
      if (this.#paused) await this.#untilResumed();
      else if (this.orders.pause) await this.#pause();
      else return 'go_on';
    }
  }

  async #pause(): Promise<void> {
    const { world, stopping } = this.#options;
    const paused = await world.store.transaction(async (tx) => {
      const row = await tx
        .selectFrom('runs')
        .select('requested')
        .where('id', '=', this.id)
        .executeTakeFirst();
      if (row?.requested !== 'pause') return false;
      const change = { state: 'paused', requested: null, last_event: 'paused' } as const;
      return (await changeRun(tx, this.id, ['running'], change)) !== undefined;
    });
    // A cancellation came first; wait for its notification.
    if (!paused)
      await this.orders.until(() => this.orders.cancel !== undefined, world.pace.storeMs, stopping);
    this.orders.pause = false;
    this.#paused = paused;
  }

  async #untilResumed(): Promise<void> {
    const { world, stopping } = this.#options;
    const isOver = () => !this.#paused || this.orders.cancel !== undefined;
    if (await this.orders.until(isOver, world.pace.autoResumeMs, stopping)) return;
    const resumed = await world.store.transaction(async (tx) => {
      const change = { state: 'running', last_event: 'auto-resumed after 300s' } as const;
      const row = await changeRun(tx, this.id, ['paused'], change);
      const act = { verb: 'run.resume', target: this.id, by: 'host', outcome: 'applied' } as const;
      if (row) await world.store.act(tx, { ...act, reason: 'auto_resume' });
      return row !== undefined;
    });
    if (resumed) this.#paused = false;
  }

  /** Ends a cycle. The run of a scheduled or armed workflow then waits for the next one. */
  async #endCycle(segment: Segment, ending: Ending): Promise<SegmentEnd> {
    const { entry } = segment.ensemble;
    if (!entry) return await this.#end(ending);
    const gate = nextEntry(entry, segment.world.clock.now(), this.#options.firedAt);
    return await this.#suspend(segment, gate, 'entry_gate', ending);
  }

  async #suspend(segment: Segment, gate: StoredGate, kind: SuspendKind, cycle?: Ending): Promise<SegmentEnd> {
    try {
      await suspend(segment, gate, kind, cycle);
      return { kind: 'suspended', gate, outcome: cycle?.outcome };
    } catch (error) {
      if (error instanceof SuspendedAlready)
        return { kind: 'suspended', gate: error.gate, outcome: cycle?.outcome };
      if (error instanceof CancelledMeanwhile) return await this.#end({ outcome: 'cancelled' });
      throw error;
    }
  }

  async #end(ending: Ending): Promise<SegmentEnd> {
    const { world, writer } = this.#options;
    // Before the end is stored, so that a recovery after a crash does it again.
    const by = this.orders.cancel ?? 'host';
    await withdrawAll(world, { runId: this.id }, by, `the run ${this.id} has ended`);
    try {
      await writer.appendWith(endEvent(ending), (tx) => endRun(tx, world, this.id, ending));
      return { kind: 'ended', outcome: ending.outcome };
    } catch (error) {
      if (error instanceof EndedAlready) return { kind: 'ended', outcome: ending.outcome };
      if (error instanceof CancelledMeanwhile) return await this.#end({ outcome: 'cancelled' });
      throw error;
    }
  }

  async #fail(error: unknown): Promise<SegmentEnd> {
    const told = error instanceof AgentError || error instanceof StoreError;
    const message = told ? error.message : "The host failed on this run; the host's log says why.";
    const ending = { outcome: 'failed', error: shortened(message) } as const;
    return await (this.#segment ? this.#endCycle(this.#segment, ending) : this.#end(ending));
  }
}
