import { sleep } from '../../../util/sleep.ts';
import { AgentError } from '../../errors.ts';
import { evaluateCondition } from '../definition/conditions.ts';
import { currentCycle, findRun, findSteps } from './rows.ts';
import { RunWorkflows } from './scope.ts';
import type { StoredGate } from './stored-gate.ts';
import { nextFiringAfter } from './suspend-run.ts';
import { toConditionContext, toRunContext } from './run-context.ts';
import type { RunServices } from './run-services.ts';

/** Data that opened the gate of a suspended run. */
export interface GateOpening {
  /** Inputs or event, for the step's prompt. */
  readonly inputs?: unknown;
  /** Error of the step, which fails without starting. */
  readonly failure?: string;
  readonly firedAt?: string;
  /** W3C trace context of the request that opened it. */
  readonly traceparent?: string | undefined;
}

/** Whether a gate opens by itself; the others wait for `resume` or `run-now`. */
export const opensByItself = ({ kind }: StoredGate): boolean => kind !== 'input' && kind !== 'armed';

/** Resolves when the gate opens by itself; rejects with the signal's reason. */
export async function waitForGate(
  services: RunServices,
  id: string,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<GateOpening> {
  switch (gate.kind) {
    case 'time':
      return await waitForTime(services, gate, signal);
    case 'schedule':
      return await waitForFiring(services, gate, signal);
    case 'value':
      return await waitForCondition(services, id, gate, signal);
    case 'event':
      return await waitForSignal(services, id, gate, signal);
    case 'approval':
      return await waitForApproval(services, gate, signal);
    case 'input':
    case 'armed':
      throw new Error(`a gate of the kind '${gate.kind}' does not open by itself`);
  }
}

/**
 * Waits for a wall-clock time, which may jump. A duration ends at the latest when it has passed by the monotonic clock.
 */
async function waitForTime(
  { clock, timings }: RunServices,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<GateOpening> {
  const dueMs = Date.parse(gate.until_at ?? gate.since_at);
  const endMs = clock.monotonic() + dueMs - clock.now().getTime();
  for (;;) {
    const wallLeftMs = dueMs - clock.now().getTime();
    const leftMs =
      gate.after_secs === undefined ? wallLeftMs : Math.min(wallLeftMs, endMs - clock.monotonic());
    if (leftMs <= 0) return {};
    await sleep(Math.min(leftMs, timings.maxClockCheckMs), signal);
  }
}

/** Waits for the next firing. If the host missed firings while it was down, it fires once. */
async function waitForFiring(
  { clock, timings }: RunServices,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<GateOpening> {
  const { cron = '', tz = 'UTC', until_at, fired_at } = gate;
  let dueMs = until_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(until_at);
  for (;;) {
    const now = clock.now();
    if (now.getTime() >= dueMs) return { firedAt: new Date(dueMs).toISOString() };
    // After a backward jump of the clock, an earlier firing may be due.
    const next = nextFiringAfter(cron, tz, now, fired_at);
    if (next && next.getTime() < dueMs) dueMs = next.getTime();
    await sleep(Math.min(dueMs - now.getTime(), timings.maxClockCheckMs), signal);
  }
}

async function waitForCondition(
  services: RunServices,
  id: string,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<GateOpening> {
  const { expr = 'false', poll_secs = 30 } = gate;
  const runContext = await readRunContext(services, id, gate.step);
  const errorReporter = new ConditionErrorReporter(services, id);
  for (;;) {
    try {
      if (evaluateCondition(expr, await toConditionContext(services, runContext))) return {};
    } catch (error) {
      await errorReporter.report(error);
    }
    await sleep(poll_secs * 1000, signal);
  }
}

const signalBatchSize = 100;

async function waitForSignal(
  services: RunServices,
  id: string,
  { name = '', where, signal_seq = 0, step }: StoredGate,
  signal: AbortSignal,
): Promise<GateOpening> {
  const runContext = await readRunContext(services, id, step);
  const errorReporter = new ConditionErrorReporter(services, id);
  let lastSeq = signal_seq;
  for (;;) {
    const newSignals = await services.store.read((db) =>
      services.signals.after(db, lastSeq, signalBatchSize, name),
    );
    for (const { seq, data } of newSignals) {
      lastSeq = seq;
      const event = { name, data };
      try {
        if (
          where === undefined ||
          evaluateCondition(where, { ...runContext, now: services.clock.now(), event })
        )
          return { inputs: event };
      } catch (error) {
        await errorReporter.report(error);
      }
    }
    signal.throwIfAborted();
    if (newSignals.length < signalBatchSize) await sleep(services.timings.signalPollMs, signal);
  }
}

/** Waits for the decision whether to rerun a step that may have had side effects before a crash. */
async function waitForApproval(
  { changes }: RunServices,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<GateOpening> {
  const { pending_id = '', step = '' } = gate;
  const { state } = await changes.decision(pending_id, signal);
  if (state === 'applied') return {};
  return {
    failure: `It was interrupted, and running '${step}' again was not approved (${pending_id}: ${state}).`,
  };
}

async function readRunContext({ store }: RunServices, id: string, step = '') {
  return await store.read(async (db) => {
    const row = await findRun(db, id);
    if (!row) throw new Error(`the run ${id} is gone`);
    const records = await findSteps(db, id, currentCycle(row));
    return toRunContext(row, records, new RunWorkflows(row).scopeOf(row, records, step));
  });
}

/** Records why a condition cannot be evaluated, as the run's last event. Such a condition counts as false. */
class ConditionErrorReporter {
  readonly #services: RunServices;
  readonly #id: string;
  #lastMessage: string | undefined;

  constructor(services: RunServices, id: string) {
    this.#services = services;
    this.#id = id;
  }

  async report(error: unknown): Promise<void> {
    if (!(error instanceof AgentError)) throw error;
    if (error.message === this.#lastMessage) return;
    this.#lastMessage = error.message;
    await this.#services.store.transaction((tx) =>
      tx
        .updateTable('runs')
        .set({ last_event: error.message.slice(0, 500) })
        .where('id', '=', this.#id)
        .where('state', '=', 'suspended')
        .execute(),
    );
  }
}
