import { type CelKind, compileCel } from './cel.ts';
import { hostMembers } from './conditions.ts';
import type { Draft, DraftStep } from './draft.ts';
import type { Findings, Pointer } from './findings.ts';
import { suggestName } from './near-miss.ts';
import { isRecord } from '../../../util/json.ts';
import { parseTemplate } from './templates.ts';
import type { Path } from './toml-document.ts';

/** Checks that templates and conditions read only values that exist when their step begins. */
export function checkReferences(
  draft: Draft,
  endedSteps: ReadonlyMap<DraftStep, ReadonlySet<string>>,
  findings: Findings,
): void {
  const usedInputs = new Set<string>();
  for (const step of draft.steps) {
    const scope: ReferenceScope = { draft, step, endedSteps: endedSteps.get(step) ?? new Set(), usedInputs };
    const path = ['steps', step.index];
    const checkTemplate = (text: string | undefined, at: Path, isPrompt: boolean) => {
      const { parts, faults } = parseTemplate(text ?? '');
      for (const { text: within, message } of faults) findings.error('bad_template', at, message, { within });
      for (const part of parts) {
        if (typeof part === 'string') continue;
        const fault = templateFault([part.root, ...part.path], scope, isPrompt);
        if (fault !== undefined)
          findings.error('bad_reference', at, `${part.text.slice(0, 200)}: ${fault}`, { within: part.text });
      }
    };
    const checkCondition = (text: string | undefined, at: Path, kind: CelKind) => {
      const { faults, references } = compileCel(text ?? 'true', kind);
      for (const { message, within } of faults)
        findings.error('bad_condition', at, message, toPointer(within));
      for (const names of references) {
        const fault = memberFault(names, scope, conditionMembers);
        if (fault !== undefined) findings.error('bad_reference', at, fault, toPointer(names[1] ?? names[0]));
      }
    };
    checkTemplate(step.prompt, [...path, 'prompt'], true);
    for (const [at, text] of textsOf(step.inputs)) checkTemplate(text, [...path, 'inputs', ...at], true);
    if (step.foreach !== undefined) {
      const fault = memberFault(step.foreach.split('.'), scope, templateMembers);
      if (fault !== undefined) findings.error('bad_reference', [...path, 'foreach'], fault);
    }
    checkCondition(step.when, [...path, 'when'], 'condition');
    checkTemplate(step.gate?.message, [...path, 'gate', 'message'], false);
    if (step.gate?.kind === 'value') checkCondition(step.gate.expr, [...path, 'gate', 'expr'], 'condition');
    if (step.gate?.kind === 'event') checkCondition(step.gate.where, [...path, 'gate', 'where'], 'where');
  }
  warnUnusedInputs(draft, usedInputs, findings);
}

/** The texts in a value, with their paths. */
function textsOf(value: unknown): [Path, string][] {
  if (typeof value === 'string') return [[[], value]];
  const members: [string | number, unknown][] = Array.isArray(value)
    ? [...value.entries()]
    : isRecord(value)
      ? Object.entries(value)
      : [];
  return members.flatMap(([name, one]) =>
    textsOf(one).map(([at, text]): [Path, string] => [[name, ...at], text]),
  );
}

const toPointer = (within: string | undefined): Pointer => (within === undefined ? {} : { within });

interface ReferenceScope {
  readonly draft: Draft;
  readonly step: DraftStep;
  /** Steps that have ended by then. */
  readonly endedSteps: ReadonlySet<string>;
  /** Output: names of inputs that are read. */
  readonly usedInputs: Set<string>;
}

const templateRoots = ['input', 'inputs', 'steps', 'run', 'workflow', 'gate', 'item', 'index'];
const templateMembers = ['output'];
const conditionMembers = ['output', 'state', 'error'];
const runMembers = ['id', 'started_at'];

function templateFault(
  names: readonly string[],
  scope: ReferenceScope,
  isPrompt: boolean,
): string | undefined {
  const [root = '', first] = names;
  if (!templateRoots.includes(root))
    return `there is no '${root.slice(0, 64)}' here: use ${templateRoots.join(', ')}`;
  if ((root === 'input' || root === 'workflow') && first !== undefined)
    return `'${root}' is a text, it has no members`;
  if (root === 'item' || root === 'index')
    return isPrompt && scope.step.has('foreach')
      ? root === 'index' && first !== undefined
        ? "'index' is a number, it has no members"
        : undefined
      : `only the prompt and the inputs of a step with foreach have '${root}'`;
  if (root === 'gate') {
    const { gate } = scope.step;
    const providesData = gate?.kind === 'input' || gate?.kind === 'event';
    return isPrompt && providesData
      ? undefined
      : 'only the prompt of a step with an input or event gate has it';
  }
  if (first === undefined && (root === 'inputs' || root === 'steps' || root === 'run'))
    return `name a member of '${root}'`;
  return memberFault(names, scope, templateMembers);
}

/** Fault of a reference to `inputs`, `steps`, `run` or `host`, in a template or condition. */
function memberFault(
  names: readonly string[],
  scope: ReferenceScope,
  members: readonly string[],
): string | undefined {
  const [root, name = '', member, ...restPath] = names;
  if (root === 'run' && (!runMembers.includes(name) || member !== undefined))
    return `'run' has ${runMembers.join(' and ')}`;
  if (root === 'host' && (!hostMembers.some((one) => one === name) || member !== undefined))
    return `'host' has ${hostMembers.join(', ')}`;
  if (root === 'inputs') {
    scope.usedInputs.add(name);
    return inputMemberFault(name, member, scope.draft);
  }
  if (root !== 'steps') return undefined;
  const { steps } = scope.draft;
  const ids = steps.flatMap(({ id }) => id ?? []);
  if (!ids.includes(name))
    return `there is no step '${name.slice(0, 64)}'${suggestName(name, ids) || dashHint(name, ids)}`;
  if (name === scope.step.id) return 'a step cannot read itself';
  if (!scope.endedSteps.has(name))
    return `step '${name}' may not have ended by then: add needs = ["${name}"]`;
  if (member === undefined || !members.includes(member))
    return `of a step there is ${members.map((one) => `steps.${name}.${one}`).join(', ')}`;
  return member === 'output'
    ? outputFault(
        steps.find(({ id }) => id === name),
        restPath,
        members,
      )
    : undefined;
}

function inputMemberFault(name: string, member: string | undefined, { inputs }: Draft): string | undefined {
  if (!inputs.has(name)) {
    const known = [...inputs.keys()];
    return `there is no [inputs.${name.slice(0, 64)}]${suggestName(name, known) || dashHint(name, known)}`;
  }
  const type = inputs.get(name)?.type;
  if (member === undefined || type === undefined || type === 'object' || type === 'array') return undefined;
  return `the input '${name}' is of the type ${type}, it has no members`;
}

/** Fault of a reference to a step's output: the agent's answer, the inputs or event of its gate, or nothing. */
function outputFault(
  step: DraftStep | undefined,
  restPath: readonly string[],
  members: readonly string[],
): string | undefined {
  if (step === undefined || step.has('workflow')) return undefined;
  if (step.agent !== undefined) {
    const [first, ...more] = restPath;
    if (step.has('foreach') && first !== undefined)
      return /^\d+$/.test(first)
        ? outputFaultOfAnswer(step, more)
        : `the output of '${step.id}' is a list: name an item, such as steps.${step.id}.output.0`;
    return outputFaultOfAnswer(step, restPath);
  }
  const kind = step.gate?.kind;
  if (kind === undefined || kind === 'input' || kind === 'event' || members === conditionMembers)
    return undefined;
  return `step '${step.id}' only waits, it has no output`;
}

function outputFaultOfAnswer(step: DraftStep, restPath: readonly string[]): string | undefined {
  if (restPath.length === 0 || step.has('output_schema')) return undefined;
  return `the output of '${step.id}' is a text: give the step an output_schema to read members of it`;
}

/** In CEL, `steps.my-step` is a subtraction. */
const dashHint = (name: string, known: readonly string[]) => {
  const suggestion = known.find((one) => one.startsWith(`${name}-`));
  return suggestion === undefined ? '' : `; a name with dashes is written ["${suggestion}"]`;
};

function warnUnusedInputs(
  { inputs, document }: Draft,
  usedInputs: ReadonlySet<string>,
  findings: Findings,
): void {
  const workspace = document.value['workspace'] as { input?: unknown } | undefined;
  for (const name of inputs.keys())
    if (!usedInputs.has(name) && workspace?.input !== name)
      findings.warn('unused_input', ['inputs', name], `nothing reads the input '${name.slice(0, 64)}'`, {
        at: 'key',
      });
}
