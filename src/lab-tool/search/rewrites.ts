/** Rewrites of WGSL that do not change its results. */
import { readStatements, childrenOf, type Statement } from '../../lab/wgsl/statements.ts';
import { bodyOf, reflect } from '../../lab/wgsl/reflect.ts';
import { renderKernelFile } from '../../lab/kernel-header.ts';
import type { KernelRegistration } from '../../lab/types.ts';
import { applyEdits, type Edit } from './edits.ts';

const maxUnrolled = 8;

/**
 * Loops over constants, `for (var i = 0u; i < 4u; i++)`, become a block for each turn, in which `i` is a constant.
 * @returns undefined where there is none
 */
export function unrollLoops(source: string): string | undefined {
  const { tokens, functions } = reflect(source);
  const textOf = (from: number, to: number): string => {
    const [first, last] = [tokens[from], tokens[to - 1]];
    return first && last ? source.slice(first.offset, last.offset + last.length) : '';
  };
  const edits: Edit[] = [];
  const visit = (statement: Statement): void => {
    const unrolled = statement.kind === 'for' ? unroll(statement) : undefined;
    const [first, last] = [tokens[statement.from], tokens[statement.to - 1]];
    // The outer loop of nested loops: the next rewrite has the inner loop.
    if (unrolled !== undefined && first && last)
      edits.push({ from: first.offset, to: last.offset + last.length, text: unrolled });
    else childrenOf(statement).forEach(visit);
  };
  const unroll = (loop: Extract<Statement, { kind: 'for' }>): string | undefined => {
    const [init] = loop.init;
    const { condition, body } = loop;
    if (init?.kind !== 'declare' || loop.init.length !== 1 || !init.value || !condition) return undefined;
    const name = tokens[init.name]?.text ?? '';
    const start = /^(\d+)(u?)$/.exec(textOf(init.value.from, init.value.to));
    const bound = /^(\w+) ?< ?(\d+)u?$/.exec(textOf(condition.from, condition.to));
    const step = new RegExp(String.raw`^${name} ?(?:\+\+|\+= ?1u?)$`).exec(
      loop.update.map(({ from, to }) => textOf(from, to)).join(),
    );
    if (!start || bound?.[1] !== name || !step) return undefined;
    const [from, to] = [Number(start[1]), Number(bound[2])];
    if (to - from > maxUnrolled || to <= from) return undefined;
    const first = body.at(0)?.from ?? loop.to;
    const open = loop.to - 1;
    const text = textOf(first, open);
    // A jump means the loop, and a counter that is assigned is no constant.
    if (/\b(?:break|continue|loop|while|for)\b/.test(text)) return undefined;
    if (new RegExp(String.raw`&${name}\b|\b${name} ?(?:[-+*/%&|^]?=(?!=)|\+\+|--)`).test(text))
      return undefined;
    const suffix = start[2] ?? '';
    return Array.from(
      { length: to - from },
      (_, turn) => `{ const ${name} = ${from + turn}${suffix}; ${text} }`,
    ).join('\n');
  };
  for (const fn of functions) readStatements(tokens, bodyOf(tokens, fn)).forEach(visit);
  if (edits.length === 0) return undefined;
  return applyEdits(source, edits);
}

const workgroupSizes = [32, 64, 128, 256];

/** The same kernel with values to try for each of its overrides; undefined where it has none, or names values already. */
export function tuneOverrides(registration: KernelRegistration): string | undefined {
  const { source, overrides = {}, tunables = {} } = registration;
  if (Object.keys(tunables).length > 0) return undefined;
  const { overrides: declared } = reflect(source);
  const added = Object.fromEntries(
    declared
      .filter(({ type }) => type === 'u32' || type === 'i32')
      .slice(0, 3)
      .map(({ name }) => {
        const value = overrides[name] ?? defaultOf(source, name) ?? 1;
        const near = [value / 4, value / 2, value, 2 * value].filter(
          (one) => Number.isInteger(one) && one >= 1,
        );
        return [name, /^(?:WG|WORKGROUP)/.test(name) ? workgroupSizes : near];
      }),
  );
  if (Object.keys(added).length === 0) return undefined;
  const rest = Object.fromEntries(Object.entries(overrides).filter(([name]) => !(name in added)));
  return renderKernelFile({ ...registration, overrides: rest, tunables: added });
}

function defaultOf(source: string, name: string): number | undefined {
  const found = new RegExp(String.raw`\boverride\s+${name}\s*(?::\s*\w+)?\s*=\s*(\d+)u?\s*;`).exec(source);
  return found ? Number(found[1]) : undefined;
}
