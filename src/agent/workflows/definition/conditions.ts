import { AgentError } from '../../errors.ts';
import { type CelKind, type CompiledCel, compileCel } from './cel.ts';
import type { RunContext } from './templates.ts';

/** State of the host that conditions read, at the time of evaluation. */
export interface HostState {
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
] as const satisfies readonly (keyof HostState)[];

interface CommonContext extends RunContext {
  readonly now: Date;
}
/** Values for `when` and for `expr` of a value gate. */
export interface ConditionContext extends CommonContext {
  readonly host: HostState;
  readonly event?: undefined;
}
/** Values for `where` of an event gate. */
interface WhereContext extends CommonContext {
  readonly event: { readonly name: string; readonly data: unknown };
}

/** Maximum evaluation cost, about 0.1 s: nodes and characters read, times the iterations of all loops. */
const maxCost = 20_000_000;

/**
 * Evaluates a condition or a `where`.
 * @throws AgentError `condition_failed`: it cannot be evaluated, is too expensive, or its result is not a boolean
 */
export function evaluateCondition(expression: string, view: ConditionContext | WhereContext): boolean {
  const compiled = compileCached(expression, view.event === undefined ? 'condition' : 'where');
  const [fault] = compiled.faults;
  if (compiled.run === undefined) throw conditionError(expression, fault?.message ?? 'it cannot be read');
  const values = new CelValueConverter();
  const referenced = {
    inputs: pickReferenced(view.inputs, compiled, 'inputs'),
    steps: pickReferenced(view.steps, compiled, 'steps'),
  };
  const context = {
    input: values.toCel(view.input),
    workflow: view.workflow,
    now: view.now,
    inputs: values.toCel(referenced.inputs),
    steps: Object.fromEntries(
      Object.entries(referenced.steps).map(([id, { state, output = null, error = null }]) => [
        id,
        { state, output: values.toCel(output), error },
      ]),
    ),
    run: { id: view.run.id, started_at: new Date(view.run.started_at) },
    ...(view.event
      ? { name: view.event.name, data: values.toCel(view.event.data) }
      : { host: values.toCel(view.host) }),
  };
  const iterations = values.elements + (compiled.splits ? values.characters : 0) + compiled.nodes;
  const baseCost = compiled.nodes + values.characters * (1 + compiled.patterns);
  if (baseCost * iterations ** compiled.loops > maxCost)
    throw conditionError(expression, 'there is too much data for it: loop over less');
  let result: unknown;
  try {
    result = compiled.run(context);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw conditionError(expression, (error as Error & { summary?: string }).summary ?? error.message, error);
  }
  if (typeof result !== 'boolean') throw conditionError(expression, 'it is neither true nor false');
  return result;
}

function conditionError(expression: string, reason: string, cause?: Error): AgentError {
  const shortened = expression.length > 200 ? `${expression.slice(0, 200)}...` : expression;
  return new AgentError('invalid', 'condition_failed', `The condition \`${shortened}\` failed: ${reason}.`, {
    cause,
  });
}

const maxCached = 200;
const cache = new Map<string, CompiledCel>();
/** Compiles with an LRU cache, because every poll of a gate evaluates its condition. */
function compileCached(expression: string, kind: CelKind): CompiledCel {
  const key = `${kind} ${expression}`;
  const compiled = cache.get(key) ?? compileCel(expression, kind);
  cache.delete(key);
  cache.set(key, compiled);
  const [oldest] = cache.size > maxCached ? cache.keys() : [];
  if (oldest !== undefined) cache.delete(oldest);
  return compiled;
}

/** The values that the expression reads, so that others do not add to the cost. */
function pickReferenced<Value>(
  all: Readonly<Record<string, Value>>,
  { references }: CompiledCel,
  root: string,
): Record<string, Value> {
  const names = new Set(references.flatMap(([first, name]) => (first === root && name ? [name] : [])));
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.has(name)));
}

/** Converts JSON to CEL values, with integers as ints. Counts elements and characters. */
class CelValueConverter {
  elements = 0;
  characters = 0;

  toCel(value: unknown): unknown {
    this.elements++;
    if (typeof value === 'string') this.characters += value.length;
    if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
    if (Array.isArray(value)) return value.map((one) => this.toCel(one));
    if (!(value instanceof Object)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => {
        this.characters += name.length;
        return [name, this.toCel(one)];
      }),
    );
  }
}
