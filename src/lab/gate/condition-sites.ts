/**
 * Finds the conditions of a kernel, so that the checked build can record which of their outcomes occur. What a kernel does where a
 * condition was never true, or never false, was compared with nothing. The same holds for a number that is made of positions, ids or
 * conditions and had one value wherever it was computed: arithmetic can be a condition.
 */
import type { Contract } from '../../../kernels/contracts.ts';
import { compileModule } from '../emulator/compile-module.ts';
import { EmulationError } from '../emulator/emulation-error.ts';
import type { Finding } from '../types.ts';
import { sourceTextOf } from '../wgsl/constants.ts';
import type { Expression } from '../wgsl/expressions.ts';
import type { ConditionSite, ValueSite } from '../wgsl/instrument.ts';
import { bodyOf, type Reflection } from '../wgsl/reflect.ts';
import { childrenOf, readStatements, type Statement } from '../wgsl/statements.ts';
import { locationOf, type Range, type Token } from '../wgsl/tokens.ts';
import { comparisons, trait, ValueFlow } from '../wgsl/value-flow.ts';

export interface KernelConditions {
  /** In the order of the source, outer ones first. Conditions of constants and overrides are not listed: their outcome is known. */
  readonly sites: readonly ConditionSite[];
  /** Numbers that may tell one input from others, in the order of the source, outer ones first. */
  readonly values: readonly ValueSite[];
  /** A finding where the emulator's compiler, which knows the types, does not support the source. */
  readonly findings: readonly Finding[];
}

export function findConditionSites(
  reflection: Reflection,
  options: {
    readonly contract: Contract;
    readonly entryPoint: string;
    readonly overrides: Readonly<Record<string, number>>;
  },
): KernelConditions {
  const { tokens, source } = reflection;
  const keyOf = (range: Range): string => {
    const { from, to } = withoutBrackets(tokens, range);
    return `${from} ${to}`;
  };
  const sites = new Map<string, ConditionSite>();
  const values = new Map<string, ValueSite>();
  const { targets, variables } = assignedPlaces(reflection);
  try {
    const flow = new ValueFlow(reflection, options.contract);
    const expressions = new Map(
      flow.functions.flatMap(({ expressions: all }) => all.map((one) => [keyOf(one), one] as const)),
    );
    for (const loop of findLoops(reflection, flow, expressions, keyOf)) sites.set(`loop ${loop.from}`, loop);
    compileModule(reflection, {
      ...options,
      onCondition: (range, type) => {
        const inner = withoutBrackets(tokens, range);
        const expression = expressions.get(keyOf(inner));
        sites.set(keyOf(inner), {
          ...inner,
          width: type.kind === 'vector' ? type.width : 1,
          text: sourceTextOf(source, tokens, inner),
          isOrdinary: expression !== undefined && isOrdinary(expression, flow),
          ...locationOf(tokens, inner),
        });
      },
      onValue: (range, type) => {
        const inner = withoutBrackets(tokens, range);
        const key = keyOf(inner);
        const expression = expressions.get(key);
        const [element, width] =
          type.kind === 'vector'
            ? [type.element, type.width]
            : [type.kind === 'scalar' ? type.element : undefined, 1];
        const isNumber = element === 'u32' || element === 'i32' || element === 'f32' || element === 'f16';
        if (
          !expression ||
          !isNumber ||
          targets.has(`${range.from} ${range.to}`) ||
          isAddressed(tokens, inner)
        )
          return;
        const traits = flow.traitsOf(expression);
        if (traits & (trait.float | trait.logit)) {
          // Sums and products of data differ with it; what is cut off may not.
          if (expression.kind !== 'call' || !cutting.has(expression.text)) return;
        } else if ((traits & telling) === 0 || !canCollapse(expression, flow, variables, reflection)) return;
        values.set(key, {
          ...inner,
          width,
          element,
          text: sourceTextOf(source, tokens, inner),
          ...locationOf(tokens, inner),
        });
      },
    });
  } catch (error) {
    if (!(error instanceof EmulationError)) throw error;
    const { line, column, length } = error.location ?? {};
    const location =
      line === undefined || column === undefined || length === undefined ? {} : { line, column, length };
    const message = `not recorded which conditions were true in the cases, so the kernel can be wrong where they never were: ${error.message}`;
    return {
      sites: [],
      values: [],
      findings: [{ code: 'conditions_unchecked', severity: 'warning', message, ...location }],
    };
  }
  const inOrder = (a: Range, b: Range): number => a.from - b.from || b.to - a.to;
  return {
    sites: [...sites.values()].sort(inOrder),
    values: [...values.values()].sort(inOrder),
    findings: [],
  };
}

/** What a number is made of that tells one input from others. */
const telling =
  trait.record |
  trait.identity |
  trait.bits |
  trait.floatBits |
  trait.floatHash |
  trait.stepSize |
  trait.token |
  trait.selected;

/** Functions that map many floats to one. */
const cutting: ReadonlySet<string> = new Set(
  'min max clamp saturate sign step smoothstep floor ceil round trunc exp exp2 pow tanh'.split(' '),
);
/** Operators that map different values of an operand to one, even where the other operand is a constant or a size. */
const narrowing: ReadonlySet<string> = new Set(['&', '|', '/', '%', '>>', '<<']);

/**
 * Whether the value can be one although what it is made of differs. Sums and products with constants and sizes cannot; conversions,
 * `select` and functions of the kernel have what their arguments or their results have.
 */
function canCollapse(
  { kind, text, parts }: Expression,
  flow: ValueFlow,
  variables: ReadonlySet<string>,
  { functions }: Reflection,
): boolean {
  switch (kind) {
    case 'name':
      return variables.has(text);
    case 'binary':
      return (
        narrowing.has(text) ||
        parts.every((part) => (flow.traitsOf(part) & telling) !== 0) ||
        // A place in a workgroup can be 0 or 1 where the other factor is not.
        (text === '*' && parts.every((part) => !isFactor(part, flow)))
      );
    case 'call':
      return (
        text !== 'select' &&
        text !== 'bitcast' &&
        !/^(?:[uif]32|f16|vec[234].*)$/.test(text) &&
        !functions.some(({ name }) => name === text)
      );
    case 'member':
    case 'index': {
      // An element of a variable, not of a buffer.
      const [base] = parts;
      return base?.kind === 'name' && variables.has(base.text);
    }
    default:
      return false;
  }
}

/** Whether it is a constant or a size of the model, which no product collapses. */
const isFactor = (part: Expression, flow: ValueFlow): boolean =>
  flow.constantOf(part) !== undefined || (flow.traitsOf(part) & ~trait.asFloat) === trait.size;

/**
 * Places that statements assign to, and the names of variables that are assigned in loops and branches other than by the head of a loop:
 * where they are read, they may have one value although what is assigned differs.
 */
function assignedPlaces({ tokens, functions }: Reflection): {
  readonly targets: ReadonlySet<string>;
  readonly variables: ReadonlySet<string>;
} {
  const [targets, variables] = [new Set<string>(), new Set<string>()];
  const visit = (statement: Statement, isInner: boolean): void => {
    if (statement.kind === 'assign') {
      const { from, to } = statement.target;
      targets.add(`${from} ${to}`);
      const root = tokens.slice(from, to).find(({ kind }) => kind === 'name');
      if (root && isInner) variables.add(root.text);
    }
    const head = statement.kind === 'for' ? [...statement.init, ...statement.update] : [];
    for (const child of head) visit(child, false);
    for (const child of childrenOf(statement)) if (!head.includes(child)) visit(child, true);
  };
  for (const fn of functions)
    for (const statement of readStatements(tokens, bodyOf(tokens, fn))) visit(statement, false);
  return { targets, variables };
}

/** Whether the address of a variable is taken. */
function isAddressed(tokens: readonly Token[], { from }: Range): boolean {
  const before = tokens[from - 2];
  return tokens[from - 1]?.text === '&' && before?.kind === 'symbol' && ![')', ']'].includes(before.text);
}

function withoutBrackets(tokens: readonly Token[], { from, to }: Range): Range {
  const isBracketed = tokens[from]?.text === '(' && tokens[from]?.matchIndex === to - 1;
  return isBracketed ? withoutBrackets(tokens, { from: from + 1, to: to - 1 }) : { from, to };
}

/**
 * Loops whose number of turns depends on sizes, positions or data: what a second turn needs of the first is tested only where there are
 * two.
 */
function findLoops(
  reflection: Reflection,
  flow: ValueFlow,
  expressions: ReadonlyMap<string, Expression>,
  keyOf: (range: Range) => string,
): ConditionSite[] {
  const { tokens, source } = reflection;
  const loops: ConditionSite[] = [];
  const visit = (statement: Statement): void => {
    if ((statement.kind === 'for' || statement.kind === 'while') && statement.condition) {
      const inner = withoutBrackets(tokens, statement.condition);
      const condition = expressions.get(keyOf(inner));
      const traits = (condition?.parts ?? []).reduce((all, part) => all | flow.traitsOf(part), 0);
      const body =
        statement.kind === 'while'
          ? statement.condition.to
          : (tokens[statement.from + 1]?.matchIndex ?? 0) + 1;
      if (traits & (trait.size | trait.record) && tokens[body]?.text === '{')
        loops.push({
          from: statement.from,
          to: statement.to,
          body,
          width: 1,
          text: sourceTextOf(source, tokens, inner),
          isOrdinary: false,
          ...locationOf(tokens, inner),
        });
    }
    childrenOf(statement).forEach(visit);
  };
  for (const fn of reflection.functions) readStatements(tokens, bodyOf(tokens, fn)).forEach(visit);
  return loops;
}

const inequalities: ReadonlySet<string> = new Set(['<', '<=', '>', '>=']);
const dataTraits = trait.size | trait.record | trait.float | trait.identity | trait.logit | trait.bits;

/**
 * Whether a condition may have one outcome in all cases: a guard, which compares the place in the output with a size and is never true
 * where the workgroups fit exactly, or one that depends on the place in a workgroup alone.
 */
function isOrdinary({ kind, text, parts: [left, right] }: Expression, flow: ValueFlow): boolean {
  if (kind !== 'binary' || !comparisons.has(text) || !left || !right) return false;
  const [a, b] = [flow.traitsOf(left), flow.traitsOf(right)];
  if (((a | b) & (dataTraits | trait.place)) === 0) return true;
  const isSize = (one: Expression, traits: number): boolean =>
    (traits & ~trait.stepSize) === trait.size &&
    (one.kind === 'member' ||
      one.kind === 'name' ||
      (one.text === '*' && one.parts.every((part) => isSize(part, flow.traitsOf(part)))));
  return (
    inequalities.has(text) &&
    ((a === trait.place && isSize(right, b)) || (b === trait.place && isSize(left, a)))
  );
}
