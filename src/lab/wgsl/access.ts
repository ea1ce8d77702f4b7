/** Resolves an access expression that starts at a storage variable: its members and indices. */
import type { Reflection } from './reflect.ts';
import type { Token } from './tokens.ts';
import type { Type } from './types.ts';

export interface IndexStep {
  /** Token indices of `[` and `]`. */
  readonly openToken: number;
  readonly closeToken: number;
  /** Type of the indexed expression. */
  readonly indexedType: Type;
  /** Source text of the indexed expression, if it is a runtime-sized array: the variable, or its last member. */
  readonly path: string;
}

export interface AccessPath {
  /** Token range, including parentheses around the name. */
  readonly from: number;
  readonly to: number;
  readonly steps: readonly IndexStep[];
  /** Type of the whole access; undefined when it cannot be determined. */
  readonly type: Type | undefined;
}

/** @param root token index of the name of a variable of this type */
export function followAccess({ tokens }: Reflection, root: number, type: Type): AccessPath {
  let from = root;
  let index = root + 1;
  const steps: IndexStep[] = [];
  let path = tokens[root]?.text ?? '';
  let current: Type | undefined = type;
  for (;;) {
    const token = tokens[index];
    if (token?.text === '[' && token.matchIndex > index) {
      if (current) steps.push({ openToken: index, closeToken: token.matchIndex, indexedType: current, path });
      current = current && elementOf(current);
      index = token.matchIndex + 1;
    } else if (token?.text === '.') {
      const member: string = tokens[index + 1]?.text ?? '';
      path += `.${member}`;
      current = current && memberOf(current, member);
      index += 2;
    } else if (token?.text === ')' && token.matchIndex === from - 1 && !isCall(tokens[from - 2])) {
      from--;
      index++;
    } else {
      return { from, to: index, steps, type: current };
    }
  }
}

const keywords: ReadonlySet<string> = new Set(['return', 'if', 'while', 'switch', 'case']);

/** Whether the token before a parenthesis makes it an argument list. */
const isCall = (before: Token | undefined): boolean =>
  before !== undefined &&
  ((before.kind === 'name' && !keywords.has(before.text)) || (before.text === '>' && before.matchIndex >= 0));

function elementOf(type: Type): Type | undefined {
  switch (type.kind) {
    case 'array':
      return type.element;
    case 'vector':
      return { kind: 'scalar', name: type.element };
    case 'matrix':
      return { kind: 'vector', width: type.rows, element: type.element };
    case 'scalar':
    case 'atomic':
    case 'struct':
    case 'other':
      return undefined;
  }
}

function memberOf(type: Type, name: string): Type | undefined {
  if (type.kind === 'struct') return type.struct.members.find((member) => member.name === name)?.type;
  if (type.kind !== 'vector') return undefined;
  return name.length === 1
    ? { kind: 'scalar', name: type.element }
    : { kind: 'vector', width: name.length, element: type.element };
}

/** Whether the token is the unary operator `&`. */
export function isAddressOf(tokens: readonly Token[], index: number): boolean {
  if (tokens[index]?.text !== '&') return false;
  const before = tokens[index - 1];
  if (!before || before.kind === 'number' || before.text === ')' || before.text === ']') return false;
  return before.kind !== 'name' || before.text === 'return';
}
