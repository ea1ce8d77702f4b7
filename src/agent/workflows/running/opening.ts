import { pause } from '../../../util/pause.ts';
import { AgentError } from '../../errors.ts';
import { evaluate } from '../definition/conditions.ts';
import { cycleOf, findRun, findSteps } from './rows.ts';
import type { StoredGate } from './stored-gate.ts';
import { nextDue } from './suspending.ts';
import { conditionViewOf, viewOf } from './view.ts';
import type { RunWorld } from './world.ts';

/** Data that opened the gate of a suspended run. */
export interface Opening {
  /** Inputs or event, for the step's prompt. */
  readonly inputs?: unknown;
  /** Error of the step, which fails without starting. */
  readonly failure?: string;
  readonly firedAt?: string;
  /** W3C trace context of the request that opened it. */
  readonly traceparent?: string | undefined;
}

/** Whether a gate opens by itself; the others wait for `resume` or `run-now`. */
export const opensItself = ({ kind }: StoredGate): boolean => kind !== 'input' && kind !== 'armed';

/** Resolves when the gate opens by itself; rejects with the signal's reason. */
export async function untilOpen(
  world: RunWorld,
  id: string,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<Opening> {
  switch (gate.kind) {
    case 'time':
      return await untilTime(world, gate, signal);
    case 'schedule':
      return await untilFiring(world, gate, signal);
    case 'value':
      return await untilTrue(world, id, gate, signal);
    case 'event':
      return await untilSignal(world, id, gate, signal);
    case 'approval':
      return await untilApproved(world, gate, signal);
    case 'input':
    case 'armed':
      throw new Error(`a gate of the kind '${gate.kind}' does not open by itself`);
  }
}

/**
 * Waits for a wall-clock time, which may jump. A duration ends at the latest when it has passed by the monotonic clock.
 */
async function untilTime({ clock, pace }: RunWorld, gate: StoredGate, signal: AbortSignal): Promise<Opening> {
  const due = Date.parse(gate.until_at ?? gate.since_at);
  const end = clock.monotonic() + due - clock.now().getTime();
  for (;;) {
    const wall = due - clock.now().getTime();
    const left = gate.after_secs === undefined ? wall : Math.min(wall, end - clock.monotonic());
    if (left <= 0) return {};
    await pause(Math.min(left, pace.checkMs), signal);
  }
}

/** Waits for the next firing. If the host missed firings while it was down, it fires once. */
async function untilFiring(
  { clock, pace }: RunWorld,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<Opening> {
  const { cron = '', tz = 'UTC', until_at, fired_at } = gate;
  let due = until_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(until_at);
  for (;;) {
    const now = clock.now();
    if (now.getTime() >= due) return { firedAt: new Date(due).toISOString() };
    // After a backward jump of the clock, an earlier firing may be due.
    const next = nextDue(cron, tz, now, fired_at);
    if (next && next.getTime() < due) due = next.getTime();
    await pause(Math.min(due - now.getTime(), pace.checkMs), signal);
  }
}

async function untilTrue(
  world: RunWorld,
  id: string,
  gate: StoredGate,
  signal: AbortSignal,
): Promise<Opening> {
  const { expr = 'false', poll_secs = 30 } = gate;
  const view = await viewOfRun(world, id);
  const trouble = new Trouble(world, id);
  for (;;) {
    try {
      if (evaluate(expr, await conditionViewOf(world, view))) return {};
    } catch (error) {
      await trouble.tell(error);
    }
    await pause(poll_secs * 1000, signal);
  }
}

const signalsAtOnce = 100;

async function untilSignal(
  world: RunWorld,
  id: string,
  { name = '', where, signal_seq = 0 }: StoredGate,
  signal: AbortSignal,
): Promise<Opening> {
  const view = await viewOfRun(world, id);
  const trouble = new Trouble(world, id);
  let seen = signal_seq;
  for (;;) {
    const come = await world.signals.after(name, seen, signalsAtOnce);
    for (const { seq, data } of come) {
      seen = seq;
      const event = { name, data };
      try {
        if (where === undefined || evaluate(where, { ...view, now: world.clock.now(), event }))
          return { inputs: event };
      } catch (error) {
        await trouble.tell(error);
      }
    }
    signal.throwIfAborted();
    if (come.length < signalsAtOnce) await pause(world.pace.signalMs, signal);
  }
}

/** Waits for the decision whether to rerun a step that may have had side effects before a crash. */
async function untilApproved({ changes }: RunWorld, gate: StoredGate, signal: AbortSignal): Promise<Opening> {
  const { pending_id = '', step = '' } = gate;
  const { state } = await changes.decision(pending_id, signal);
  if (state === 'applied') return {};
  return {
    failure: `It was interrupted, and running '${step}' again was not approved (${pending_id}: ${state}).`,
  };
}

async function viewOfRun({ store }: RunWorld, id: string) {
  return await store.read(async (db) => {
    const row = await findRun(db, id);
    if (!row) throw new Error(`the run ${id} is gone`);
    return viewOf(row, await findSteps(db, id, cycleOf(row)));
  });
}

/** Records why a condition cannot be evaluated, as the run's last event. Such a condition counts as false. */
class Trouble {
  readonly #world: RunWorld;
  readonly #id: string;
  #told: string | undefined;

  constructor(world: RunWorld, id: string) {
    this.#world = world;
    this.#id = id;
  }

  async tell(error: unknown): Promise<void> {
    if (!(error instanceof AgentError)) throw error;
    if (error.message === this.#told) return;
    this.#told = error.message;
    await this.#world.store.transaction((tx) =>
      tx
        .updateTable('runs')
        .set({ last_event: error.message.slice(0, 500) })
        .where('id', '=', this.#id)
        .where('state', '=', 'suspended')
        .execute(),
    );
  }
}
