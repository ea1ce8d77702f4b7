import { AgentError } from '../../errors.ts';
import { type CelKind, type CompiledCel, compileCel } from './cel.ts';
import type { RunView } from './templates.ts';

/** What conditions read of the host, as it is when they are asked. */
export interface HostView {
  /** Changes and questions that wait for a person. */
  readonly pending: number;
  readonly tasks_running: number;
  readonly external_sessions: number;
  /** Since the host started. */
  readonly completions_served: number;
  /** The id of the resident model; '' where there is none. */
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
/** For `when`, and for the gate of a value. */
export interface ConditionView extends CommonView {
  readonly host: HostView;
  readonly event?: undefined;
}
/** For `where`, which is asked about an event. */
interface WhereView extends CommonView {
  readonly event: { readonly name: string; readonly data: unknown };
}

/** About what a tenth of a second allows: nodes and characters looked at, times the turns of all loops. */
const mostWork = 20_000_000;

/**
 * Whether a condition, or a `where`, holds.
 * @throws AgentError `condition_failed`: it cannot be evaluated, is too expensive, or is neither true nor false
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
/** Conditions are asked again and again, by every poll of a gate. */
function compiledOnce(expression: string, kind: CelKind): CompiledCel {
  const key = `${kind} ${expression}`;
  const compiled = kept.get(key) ?? compileCel(expression, kind);
  kept.delete(key);
  kept.set(key, compiled);
  const [oldest] = kept.size > mostKept ? kept.keys() : [];
  if (oldest !== undefined) kept.delete(oldest);
  return compiled;
}

/** Only what the expression reads, so that nothing else counts. */
function pick<Value>(
  all: Readonly<Record<string, Value>>,
  { references }: CompiledCel,
  root: string,
): Record<string, Value> {
  const names = new Set(references.flatMap(([first, name]) => (first === root && name ? [name] : [])));
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.has(name)));
}

/** JSON as CEL's values: whole numbers are ints. Counts what there is. */
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
