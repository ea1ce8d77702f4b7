import { constantsOf, unrollLoops } from './unroll.ts';

/** WGSL sources by path below `wgsl/`, for example `rms_norm.wgsl` or `lib/reduce.wgsl`. */
export type WgslSources = ReadonlyMap<string, string>;

/** Parameters of a kernel variant: numbers become constants, strings include names, booleans control `//#if`. */
export type Variant = Readonly<Record<string, number | boolean | string>>;

/**
 * Preprocesses a WGSL source for a variant. Directives are comments on a line of their own: `//#if NAME`, `//#else`,
 * `//#endif` (NAME is a boolean of the variant) and `//#include "lib/x.wgsl"`, in which `$NAME` is replaced by a string
 * of the variant. `//#unroll` before `for (var i = 0u; i < N; i++) {` repeats the loop's body with a constant `i`, see
 * `unroll.ts`. Inactive lines become empty; included files and the constants of the variant are appended, so line numbers
 * do not change.
 */
export function assemble(sources: WgslSources, path: string, variant: Variant): string {
  const included = new Set<string>();
  const queue = [path];
  const parts: string[] = [];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    if (included.has(next)) continue;
    included.add(next);
    const text = sources.get(next);
    if (text === undefined) {
      throw new Error(`no WGSL source '${next}' (known: ${[...sources.keys()].sort().join(', ')})`);
    }
    parts.push(preprocess(text, next, variant, queue));
  }
  const constants = constantsOf(parts, variant);
  const paths = [...included];
  const unrolled = parts.map((part, index) => unrollLoops(part, constants, paths[index]));
  return [...unrolled, variantConstants(variant)].join('\n');
}

/** Cache key: equal if and only if the path and all fields of the variant are equal. */
export function variantKey(path: string, variant: Variant): string {
  const fields = Object.keys(variant).sort();
  return `${path}?${fields.map((name) => `${name}=${JSON.stringify(variant[name])}`).join('&')}`;
}

function preprocess(text: string, path: string, variant: Variant, includes: string[]): string {
  // For each open `//#if`: whether the current branch is active.
  const branches: { active: boolean; sawElse: boolean }[] = [];
  const lines = text.split('\n').map((line, index) => {
    const directive = /^\s*\/\/#(\w+)\s*(.*?)\s*$/.exec(line);
    const active = branches.every((branch) => branch.active);
    if (!directive) return active ? line : '';
    const [, directiveName, argument = ''] = directive;
    const fail = (why: string) => new Error(`${path}:${index + 1}: ${why}`);
    switch (directiveName) {
      case 'if': {
        const value = variant[argument];
        if (typeof value !== 'boolean') {
          throw fail(`'${argument}' is not a boolean of the variant (${Object.keys(variant).join(', ')})`);
        }
        branches.push({ active: value, sawElse: false });
        return '';
      }
      case 'else': {
        const branch = branches.at(-1);
        if (!branch || branch.sawElse) throw fail('//#else without //#if');
        branch.active = !branch.active;
        branch.sawElse = true;
        return '';
      }
      case 'endif':
        if (!branches.pop()) throw fail('//#endif without //#if');
        return '';
      case 'include': {
        const includePath = /^"(.+)"$/.exec(argument)?.[1];
        if (!includePath) throw fail('expected //#include "path"');
        if (active)
          includes.push(includePath.replace(/\$(\w+)/g, (_, name: string) => String(variant[name])));
        return '';
      }
      case 'unroll':
        return active ? line : '';
      default:
        throw fail(`unknown directive //#${directiveName} (known: if, else, endif, include, unroll)`);
    }
  });
  if (branches.length > 0) throw new Error(`${path}: //#if without //#endif`);
  return lines.join('\n');
}

function variantConstants(variant: Variant): string {
  return Object.entries(variant)
    .filter(([, value]) => typeof value === 'number')
    .map(([name, value]) => `const ${name} = ${wgslLiteral(name, value as number)};`)
    .join('\n');
}

/** Integers are `u32`; names that end in `_F` are `f32`. */
function wgslLiteral(name: string, value: number): string {
  if (name.endsWith('_F')) return `f32(${value})`;
  if (!Number.isInteger(value) || value < 0) {
    throw new Error(
      `variant constant ${name}: expected an integer >= 0 (names of floats end in _F), got ${value}`,
    );
  }
  return `${value}u`;
}
