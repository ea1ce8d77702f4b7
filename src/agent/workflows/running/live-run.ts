import { sleep } from '../../../util/sleep.ts';
import { AgentError } from '../../errors.ts';
import { StoreError } from '../../../store/index.ts';
import type { TraceSpan } from '../../../tracing/index.ts';
import {
  CancelledMeanwhile,
  RunAlreadyEnded,
  runEndEvent,
  type RunOutcome,
  endRun,
  shortenMessage,
} from './end-run.ts';
import { RunRequests } from './run-requests.ts';
import { resumedConversation } from './attempt-conversation.ts';
import { runResult } from './progress.ts';
import { askWhetherToRerun, discardAllStaged } from './questions.ts';
import { updateRun, currentCycle, findSteps, type RunRow } from './rows.ts';
import type { UnnumberedRunEvent, Segment } from './segment.ts';
import { runSteps } from './run-steps.ts';
import { RunWorkflows } from './scope.ts';
import { Semaphore } from './semaphore.ts';
import type { SlotLease } from './slot-lease.ts';
import type { StoredGate } from './stored-gate.ts';
import { nextEntryGate, suspendRun, RunAlreadySuspended, type SuspendKind } from './suspend-run.ts';
import type { StreamWriter } from '../../event-log/stream-writer.ts';
import type { RunServices } from './run-services.ts';

/** Result of a segment. `stopped`: the host stops, and its next start continues the run. */
export type SegmentResult =
  | { readonly kind: 'ended'; readonly outcome: RunOutcome['outcome'] }
  /** With the outcome of the cycle, if one has ended. */
  | {
      readonly kind: 'suspended';
      readonly gate: StoredGate;
      readonly outcome: RunOutcome['outcome'] | undefined;
    }
  | { readonly kind: 'stopped' };

interface LiveRunOptions {
  readonly services: RunServices;
  /** Span of the segment. */
  readonly span: TraceSpan<'run'>;
  readonly row: RunRow;
  readonly lease: SlotLease;
  readonly writer: StreamWriter<UnnumberedRunEvent>;
  readonly stopping: AbortSignal;
  /** The segment continues after a crash or a stop of the host. */
  readonly recovered?: true;
  /** Time at which the schedule fired for this cycle. */
  readonly firedAt?: string;
}

/** Actor of a cancellation that was requested before the host restarted. */
const unknownActor = 'host';

/** Executes one segment of a run: its steps in sequence, until the run ends or suspends, or the host stops. */
export class LiveRun {
  readonly id: string;
  readonly requests: RunRequests;
  readonly #options: LiveRunOptions;
  #paused: boolean;
  /** Set when the workflow is parsed. */
  #segment: Segment | undefined;
  #boundary: Promise<'go_on' | 'cancelled'> | undefined;

  constructor(options: LiveRunOptions) {
    const { row, services } = options;
    this.id = row.id;
    this.#options = options;
    this.#paused = row.state === 'paused';
    const cancel = row.requested === 'cancel' ? unknownActor : undefined;
    this.requests = new RunRequests(
      { pause: row.requested === 'pause', cancel },
      services.clock,
      services.timings.maxClockCheckMs,
    );
  }

  /** Ends the pause. The database must already have the new state. */
  resume(): void {
    this.#paused = false;
    this.requests.notify();
  }

  /** Runs the segment. Never rejects: an error ends the run as failed, when the database accepts it. */
  async runSegment(): Promise<SegmentResult> {
    const { services, stopping } = this.#options;
    let failure: { readonly error: unknown } | undefined;
    for (;;) {
      try {
        return await (failure ? this.#failRun(failure.error) : this.#runSteps());
      } catch (error) {
        if (stopping.aborted) return { kind: 'stopped' };
        if (!(error instanceof AgentError || error instanceof StoreError))
          services.onFault(`the run ${this.id}`, error);
        const isRetry = failure !== undefined;
        failure ??= { error };
        if (isRetry) await sleep(services.timings.storeRetryMs, stopping).catch(() => undefined);
      }
    }
  }

  async #runSteps(): Promise<SegmentResult> {
    const { services, span, row, writer, stopping } = this.#options;
    const workflows = new RunWorkflows(row);
    const { parallel } = workflows.root.ensemble;
    const records = await services.store.read((db) => findSteps(db, row.id, currentCycle(row)));
    const segment: Segment = {
      services,
      span,
      row,
      workflows,
      scope: workflows.root,
      parallel,
      agentSlots: new Semaphore(parallel),
      lease: this.#options.lease,
      waits: new Set(),
      runSteps,
      boundary: () => this.#stepBoundary(),
      writer,
      records,
      requests: this.requests,
      stopping,
    };
    this.#segment = segment;
    const suspended = await this.#recoverSteps(segment);
    if (suspended) return suspended;
    const { ensemble } = workflows.root;
    const result = await runSteps(segment, ensemble.steps);
    switch (result.kind) {
      case 'completed':
        return await this.#endCycle(segment, { outcome: 'completed', result: runResult(ensemble, records) });
      case 'stopped':
        return result;
      case 'suspended':
        return await this.#suspend(segment, result.gate, 'interior_gate');
      case 'cancelled':
        return await this.#endRun({ outcome: 'cancelled' });
      case 'failed':
        return this.requests.cancel === undefined
          ? await this.#endCycle(segment, { outcome: 'failed', error: result.error })
          : await this.#endRun({ outcome: 'cancelled' });
    }
  }

  /**
   * Recovers the steps that a crash or a stop of the host interrupted. They go on where they were; one that cannot, and
   * that may have had side effects, is rerun only after approval. The run suspends for one of them at a time.
   */
  async #recoverSteps(segment: Segment): Promise<SegmentResult | undefined> {
    const { row, records, services } = segment;
    const states = this.#options.recovered ? ['running', 'interrupted'] : ['interrupted'];
    const interrupted = [...records.values()].filter(
      ({ state, attempts }) => states.includes(state) && attempts > 0,
    );
    for (const record of interrupted) {
      const { step, side_effects } = record;
      // It goes on at its last call, which is asked about if it may have been made.
      if (await resumedConversation(segment, record)) continue;
      await discardAllStaged(services, { runId: row.id, step }, 'host', `the step '${step}' was interrupted`);
      if (side_effects === 1 && this.requests.cancel === undefined)
        return await this.#suspend(segment, await askWhetherToRerun(segment, step), 'crash');
      const last_event = `continues with '${step}' after a restart`;
      await services.store.transaction((tx) => updateRun(tx, row.id, ['running'], { last_event }));
    }
    return undefined;
  }

  /** One at a time, also where several branches arrive at it. */
  async #stepBoundary(): Promise<'go_on' | 'cancelled'> {
    this.#boundary ??= this.#passBoundary().finally(() => {
      this.#boundary = undefined;
    });
    return await this.#boundary;
  }

  async #passBoundary(): Promise<'go_on' | 'cancelled'> {
    const { stopping } = this.#options;
    for (;;) {
      stopping.throwIfAborted();
      if (this.requests.cancel !== undefined) return 'cancelled';
      if (this.#paused) await this.#waitForResume();
      else if (this.requests.pause) await this.#pause();
      else return 'go_on';
    }
  }

  async #pause(): Promise<void> {
    const { services, stopping, lease } = this.#options;
    // Branches that work go on to the end of their steps.
    await lease.whenIdle(stopping);
    const paused = await services.store.transaction(async (tx) => {
      const row = await tx
        .selectFrom('runs')
        .select('requested')
        .where('id', '=', this.id)
        .executeTakeFirst();
      if (row?.requested !== 'pause') return false;
      const change = { state: 'paused', requested: null, last_event: 'paused' } as const;
      return (await updateRun(tx, this.id, ['running'], change)) !== undefined;
    });
    // A cancellation came first; wait for its notification.
    if (!paused)
      await this.requests.waitUntil(
        () => this.requests.cancel !== undefined,
        services.timings.storeRetryMs,
        stopping,
      );
    this.requests.pause = false;
    this.#paused = paused;
  }

  async #waitForResume(): Promise<void> {
    const { services, stopping } = this.#options;
    const isPauseOver = () => !this.#paused || this.requests.cancel !== undefined;
    if (await this.requests.waitUntil(isPauseOver, services.timings.autoResumeMs, stopping)) return;
    const resumed = await services.store.transaction(async (tx) => {
      const change = { state: 'running', last_event: 'auto-resumed after 300s' } as const;
      const row = await updateRun(tx, this.id, ['paused'], change);
      const act = { verb: 'run.resume', target: this.id, by: 'host', outcome: 'applied' } as const;
      if (row) await services.store.appendAct(tx, { ...act, reason: 'auto_resume' });
      return row !== undefined;
    });
    if (resumed) this.#paused = false;
  }

  /** Ends a cycle. The run of a scheduled or armed workflow then waits for the next one. */
  async #endCycle(segment: Segment, runOutcome: RunOutcome): Promise<SegmentResult> {
    const { entry } = segment.workflows.root.ensemble;
    if (!entry) return await this.#endRun(runOutcome);
    const gate = nextEntryGate(entry, segment.services.clock.now(), this.#options.firedAt);
    return await this.#suspend(segment, gate, 'entry_gate', runOutcome);
  }

  async #suspend(
    segment: Segment,
    gate: StoredGate,
    kind: SuspendKind,
    cycleOutcome?: RunOutcome,
  ): Promise<SegmentResult> {
    try {
      await suspendRun(segment, gate, kind, cycleOutcome);
      return { kind: 'suspended', gate, outcome: cycleOutcome?.outcome };
    } catch (error) {
      if (error instanceof RunAlreadySuspended)
        return { kind: 'suspended', gate: error.gate, outcome: cycleOutcome?.outcome };
      if (error instanceof CancelledMeanwhile) return await this.#endRun({ outcome: 'cancelled' });
      throw error;
    }
  }

  async #endRun(runOutcome: RunOutcome): Promise<SegmentResult> {
    const { services, writer } = this.#options;
    // Before the end is stored, so that a recovery after a crash does it again.
    const by = this.requests.cancel ?? 'host';
    await discardAllStaged(services, { runId: this.id }, by, `the run ${this.id} has ended`);
    try {
      await writer.appendWith(runEndEvent(runOutcome), (tx) => endRun(tx, services, this.id, runOutcome));
      return { kind: 'ended', outcome: runOutcome.outcome };
    } catch (error) {
      if (error instanceof RunAlreadyEnded) return { kind: 'ended', outcome: runOutcome.outcome };
      if (error instanceof CancelledMeanwhile) return await this.#endRun({ outcome: 'cancelled' });
      throw error;
    }
  }

  async #failRun(error: unknown): Promise<SegmentResult> {
    const isExpected = error instanceof AgentError || error instanceof StoreError;
    const message = isExpected ? error.message : "The host failed on this run; the host's log says why.";
    const runOutcome = { outcome: 'failed', error: shortenMessage(message) } as const;
    return await (this.#segment ? this.#endCycle(this.#segment, runOutcome) : this.#endRun(runOutcome));
  }
}
