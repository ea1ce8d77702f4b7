import { parseEnsemble } from '../definition/parse-ensemble.ts';
import type { Ensemble, Step } from '../definition/ensemble.ts';
import { resolveInputs } from '../definition/inputs.ts';
import { renderValue, resolveList, type RunContext } from '../definition/templates.ts';
import { toRunContext } from './run-context.ts';
import type { RunRow, StepRow } from './rows.ts';

type Records = ReadonlyMap<string, StepRow>;
type Item = NonNullable<RunContext['item']>;

/** A workflow in a run: the run's own, or one that a step of it runs. */
export interface Scope {
  readonly ensemble: Ensemble;
  /** In front of the ids of its steps in the run's records and events: '' or `ID.`, `ID[0].` ... */
  readonly prefix: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  /** Within a step that is repeated: the items by the ids of the steps that it consists of. */
  readonly items?: ReadonlyMap<string, Item>;
}

/** The workflows of a run, parsed once. */
export class RunWorkflows {
  readonly root: Scope;
  readonly #nestedSources: Readonly<Record<string, string>>;
  readonly #parsed = new Map<string, Ensemble>();

  constructor({ source, inputs, nested_sources }: Pick<RunRow, 'source' | 'inputs' | 'nested_sources'>) {
    this.#nestedSources =
      nested_sources === null ? {} : (JSON.parse(nested_sources) as Record<string, string>);
    this.root = {
      ensemble: parseEnsemble(source),
      prefix: '',
      inputs: JSON.parse(inputs) as Record<string, unknown>,
    };
  }

  /** The scope of the workflow that a step runs. @throws AgentError where its inputs are invalid */
  nested(step: Step & { readonly workflow: string }, context: RunContext): Scope {
    const { workflow: name, id } = step;
    const ensemble = this.#ensemble(name);
    const inputs = resolveInputs(
      ensemble,
      renderValue(step.inputs ?? {}, context) as Record<string, unknown>,
    );
    return { ensemble, prefix: `${id}.`, inputs };
  }

  /** Whether a gate in a workflow may suspend the run. */
  maySuspend(name: string): boolean {
    const { steps } = this.#ensemble(name);
    return steps.some(
      ({ gate, workflow }) =>
        (gate !== undefined && gate.kind !== 'approval') ||
        (workflow !== undefined && this.maySuspend(workflow)),
    );
  }

  #ensemble(name: string): Ensemble {
    const ensemble = this.#parsed.get(name) ?? parseEnsemble(this.#nestedSources[name] ?? '');
    this.#parsed.set(name, ensemble);
    return ensemble;
  }

  /** The scope of a step by its id in the run. */
  scopeOf(row: RunRow, records: Records, stepId: string): Scope {
    let scope = this.root;
    const names = stepId.split('.');
    for (const name of names.slice(0, -1)) {
      const { id, index } = splitIndex(name);
      const step = scope.ensemble.steps.find((one) => one.id === id);
      if (step?.workflow === undefined) throw new Error(`no step '${stepId}' in the run ${row.id}`);
      const context = toRunContext(row, records, scope);
      const item = index === undefined ? undefined : itemsOf(step, context)[index];
      scope = this.nested(
        { ...step, workflow: step.workflow, id: `${scope.prefix}${name}` },
        { ...context, ...(item ? { item } : {}) },
      );
    }
    return scope;
  }
}

/** Steps of a scope, with their ids in the run. */
export const stepsOf = ({ ensemble, prefix }: Scope): readonly Step[] =>
  prefix === ''
    ? ensemble.steps
    : ensemble.steps.map((step) => ({
        ...step,
        id: `${prefix}${step.id}`,
        needs: step.needs.map((need) => `${prefix}${need}`),
      }));

/** The items of a step that is repeated. @throws AgentError `not_a_list` */
export const itemsOf = (step: Step, context: RunContext): readonly Item[] =>
  resolveList(step.foreach ?? '', context).map((value, index) => ({ value, index }));

function splitIndex(name: string): { readonly id: string; readonly index?: number } {
  const match = /^([^[]+)\[(\d+)\]$/.exec(name);
  return match ? { id: match[1] ?? '', index: Number(match[2]) } : { id: name };
}
