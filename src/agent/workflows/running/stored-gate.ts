import type { WaitingOn } from '../../shapes/session.ts';
import type { Entry, Gate, Step } from '../definition/ensemble.ts';

/** The gate of a suspended run, as stored in its row. Times are RFC 3339. */
export interface StoredGate {
  readonly kind: WaitingOn;
  /** Absent for the entry gate. */
  readonly step?: string;
  readonly since_at: string;
  readonly message?: string;
  /** For `time` and `schedule`. */
  readonly until_at?: string;
  /** For `time`: a duration, which jumps of the wall clock do not prolong. */
  readonly after_secs?: number;
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly expr?: string;
  readonly poll_secs?: number;
  readonly name?: string;
  readonly where?: string;
  /** For `event`: `seq` of the last signal before the gate. */
  readonly signal_seq?: number;
  /** For `approval`: id of the question. */
  readonly pending_id?: string;
  readonly cron?: string;
  readonly tz?: string;
  /** For `schedule`: time of the last firing. */
  readonly fired_at?: string;
}

export const parseGate = (json: string | null): StoredGate | undefined =>
  json === null ? undefined : (JSON.parse(json) as StoredGate);

interface GateCreation {
  readonly now: Date;
  readonly lastSignal: number;
  readonly message: string | undefined;
}

/** Creates the stored gate of a step, starting now. */
export function createStepGate(
  step: Step,
  gate: Gate,
  { now, lastSignal, message }: GateCreation,
): StoredGate {
  const commonMembers = {
    step: step.id,
    since_at: now.toISOString(),
    ...(message === undefined ? {} : { message }),
  };
  switch (gate.kind) {
    case 'input':
      return { kind: 'input', ...commonMembers, schema: gate.schema ?? {} };
    case 'time':
      return { kind: 'time', ...commonMembers, ...timeGateDeadline(gate, now) };
    case 'value':
      return { kind: 'value', ...commonMembers, expr: gate.expr, poll_secs: gate.poll_secs };
    case 'event': {
      const where = gate.where === undefined ? {} : { where: gate.where };
      return { kind: 'event', ...commonMembers, name: gate.name, ...where, signal_seq: lastSignal };
    }
    case 'approval':
      return { kind: 'approval', ...commonMembers };
  }
}

function timeGateDeadline({ until, after_secs }: Extract<Gate, { kind: 'time' }>, now: Date) {
  if (until !== undefined) return { until_at: new Date(until).toISOString() };
  const seconds = after_secs ?? 0;
  return { until_at: new Date(now.getTime() + seconds * 1000).toISOString(), after_secs: seconds };
}

/** Creates the entry gate of a workflow, starting now. */
export function createEntryGate(
  entry: Entry,
  { now, next, firedAt }: { now: Date; next: Date | undefined; firedAt: string | undefined },
): StoredGate {
  const since_at = now.toISOString();
  if (entry.kind === 'armed') return { kind: 'armed', since_at };
  return {
    kind: 'schedule',
    since_at,
    cron: entry.cron,
    tz: entry.tz,
    ...(next ? { until_at: next.toISOString() } : {}),
    ...(firedAt === undefined ? {} : { fired_at: firedAt }),
  };
}
