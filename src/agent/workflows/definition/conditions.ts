import { AgentError } from '../../errors.ts';
import { type CelKind, type CompiledCel, compileCel } from './cel.ts';
import type { RunView } from './templates.ts';

/** State of the host that conditions read, at the time of evaluation. */
export interface HostView {
  /** Number of pending changes and questions. */
  readonly pending: number;
  readonly tasks_running: number;
  readonly external_sessions: number;
  /** Completions since the host started. */
  readonly completions_served: number;
  /** Id of the resident model; '' when there is none. */
  readonly model: string;
}
export const hostMembers = [
  'pending',
  'tasks_running',
  'external_sessions',
  'completions_served',
  'model',
] as const satisfies readonly (keyof HostView)[];

interface CommonView extends RunView {
  readonly now: Date;
}
/** Values for `when` and for `expr` of a value gate. */
export interface ConditionView extends CommonView {
  readonly host: HostView;
  readonly event?: undefined;
}
/** Values for `where` of an event gate. */
interface WhereView extends CommonView {
  readonly event: { readonly name: string; readonly data: unknown };
}

/** Maximum evaluation cost, about 0.1 s: nodes and characters read, times the iterations of all loops. */
const mostWork = 20_000_000;

/**
 * Evaluates a condition or a `where`.
 * @throws AgentError `condition_failed`: it cannot be evaluated, is too expensive, or its result is not a boolean
 */
export function evaluate(expression: string, view: ConditionView | WhereView): boolean {
  const compiled = compiledOnce(expression, view.event === undefined ? 'condition' : 'where');
  const [fault] = compiled.faults;
  if (compiled.run === undefined) throw failed(expression, fault?.message ?? 'it cannot be read');
  const values = new Values();
  const known = { inputs: pick(view.inputs, compiled, 'inputs'), steps: pick(view.steps, compiled, 'steps') };
  const context = {
    input: values.cel(view.input),
    workflow: view.workflow,
    now: view.now,
    inputs: values.cel(known.inputs),
    steps: Object.fromEntries(
      Object.entries(known.steps).map(([id, { state, output = null, error = null }]) => [
        id,
        { state, output: values.cel(output), error },
      ]),
    ),
    run: { id: view.run.id, started_at: new Date(view.run.started_at) },
    ...(view.event
      ? { name: view.event.name, data: values.cel(view.event.data) }
      : { host: values.cel(view.host) }),
  };
  const turns = values.elements + (compiled.splits ? values.characters : 0) + compiled.nodes;
  const work = compiled.nodes + values.characters * (1 + compiled.patterns);
  if (work * turns ** compiled.loops > mostWork)
    throw failed(expression, 'there is too much data for it: loop over less');
  let result: unknown;
  try {
    result = compiled.run(context);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw failed(expression, (error as Error & { summary?: string }).summary ?? error.message, error);
  }
  if (typeof result !== 'boolean') throw failed(expression, 'it is neither true nor false');
  return result;
}

function failed(expression: string, why: string, cause?: Error): AgentError {
  const shown = expression.length > 200 ? `${expression.slice(0, 200)}...` : expression;
  return new AgentError('invalid', 'condition_failed', `The condition \`${shown}\` failed: ${why}.`, {
    cause,
  });
}

const mostKept = 200;
const kept = new Map<string, CompiledCel>();
/** Compiles with an LRU cache, because every poll of a gate evaluates its condition. */
function compiledOnce(expression: string, kind: CelKind): CompiledCel {
  const key = `${kind} ${expression}`;
  const compiled = kept.get(key) ?? compileCel(expression, kind);
  kept.delete(key);
  kept.set(key, compiled);
  const [oldest] = kept.size > mostKept ? kept.keys() : [];
  if (oldest !== undefined) kept.delete(oldest);
  return compiled;
}

/** The values that the expression reads, so that others do not add to the cost. */
function pick<Value>(
  all: Readonly<Record<string, Value>>,
  { references }: CompiledCel,
  root: string,
): Record<string, Value> {
  const names = new Set(references.flatMap(([first, name]) => (first === root && name ? [name] : [])));
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.has(name)));
}

/** Converts JSON to CEL values, with integers as ints. Counts elements and characters. */
class Values {
  elements = 0;
  characters = 0;

  cel(value: unknown): unknown {
    this.elements++;
    if (typeof value === 'string') this.characters += value.length;
    if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
    if (Array.isArray(value)) return value.map((one) => this.cel(one));
    if (!(value instanceof Object)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => {
        this.characters += name.length;
        return [name, this.cel(one)];
      }),
    );
  }
}
