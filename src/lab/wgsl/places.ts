/** Builtin values that say which part of the output an invocation computes. */
import type { FunctionInfo, Reflection } from './reflect.ts';

/** The other builtin values are places within a workgroup. */
const placeBuiltins: ReadonlySet<string> = new Set([
  'workgroup_id',
  'global_invocation_id',
  'global_invocation_index',
  'workgroup_index',
  'num_workgroups',
]);

export interface Places {
  readonly parameters: readonly { readonly fn: FunctionInfo; readonly name: string }[];
  /** Members of structs of builtin values. */
  readonly members: ReadonlySet<string>;
}

/** Names of parameters and members that hold such values. */
export function readPlaces({ tokens, functions }: Reflection): Places {
  const owners = new Map(functions.flatMap((fn) => fn.raw.parameters.map(({ name }) => [name, fn] as const)));
  const parameters: { fn: FunctionInfo; name: string }[] = [];
  const members = new Set<string>();
  for (const [at, token] of tokens.entries()) {
    if (token.text !== '@' || tokens[at + 1]?.text !== 'builtin') continue;
    if (!placeBuiltins.has(tokens[at + 3]?.text ?? '')) continue;
    let name = (tokens[at + 2]?.matchIndex ?? at) + 1;
    while (tokens[name]?.text === '@') {
      const open = tokens[name + 2];
      name = open?.text === '(' ? open.matchIndex + 1 : name + 2;
    }
    const text = tokens[name]?.text ?? '';
    const fn = owners.get(name);
    if (fn) parameters.push({ fn, name: text });
    else members.add(text);
  }
  return { parameters, members };
}
