/**
 * Finds the conditions of a kernel, so that the checked build can record which of their outcomes occur. What a kernel does where a
 * condition was never true, or never false, was compared with nothing.
 */
import type { Contract } from '../../../kernels/contracts.ts';
import { compileModule } from '../emulator/compile-module.ts';
import { EmulationError } from '../emulator/emulation-error.ts';
import type { Finding } from '../types.ts';
import { sourceTextOf } from '../wgsl/constants.ts';
import type { Expression } from '../wgsl/expressions.ts';
import type { ConditionSite } from '../wgsl/instrument.ts';
import { bodyOf, type Reflection } from '../wgsl/reflect.ts';
import { childrenOf, readStatements, type Statement } from '../wgsl/statements.ts';
import { locationOf, type Range, type Token } from '../wgsl/tokens.ts';
import { comparisons, trait, ValueFlow } from '../wgsl/value-flow.ts';

export interface KernelConditions {
  /** In the order of the source, outer ones first. Conditions of constants and overrides are not listed: their outcome is known. */
  readonly sites: readonly ConditionSite[];
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
    });
  } catch (error) {
    if (!(error instanceof EmulationError)) throw error;
    const { line, column, length } = error.location ?? {};
    const location =
      line === undefined || column === undefined || length === undefined ? {} : { line, column, length };
    const message = `not recorded which conditions were true in the cases, so the kernel can be wrong where they never were: ${error.message}`;
    return {
      sites: [],
      findings: [{ code: 'conditions_unchecked', severity: 'warning', message, ...location }],
    };
  }
  return { sites: [...sites.values()].sort((a, b) => a.from - b.from || b.to - a.to), findings: [] };
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
    traits === trait.size &&
    (one.kind === 'member' ||
      one.kind === 'name' ||
      (one.text === '*' && one.parts.every((part) => isSize(part, flow.traitsOf(part)))));
  return (
    inequalities.has(text) &&
    ((a === trait.place && isSize(right, b)) || (b === trait.place && isSize(left, a)))
  );
}
