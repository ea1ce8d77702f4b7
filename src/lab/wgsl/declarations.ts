/** Parses the declarations of a WGSL module to token ranges. */
import { findToken, splitRange, type Range, type Token } from './tokens.ts';

export interface Attribute {
  readonly name: string;
  readonly args: readonly Range[];
  /** Includes `@` and the arguments. */
  readonly range: Range;
}

/** In all declaration types, `name` is a token index. */
interface Declaration {
  readonly name: number;
  readonly attributes: readonly Attribute[];
}

interface InitializedDeclaration extends Declaration {
  readonly type?: Range;
  readonly value?: Range;
}

interface RawVariable extends InitializedDeclaration {
  /** Address space and access as written. */
  readonly template: readonly string[];
}

interface RawMember extends Declaration {
  readonly type: Range;
}

export interface RawFunction extends Declaration {
  readonly parameters: readonly RawMember[];
  /** Token index of the opening brace. */
  readonly body: number;
}

export interface Declarations {
  /** Token indices of the extension names. */
  readonly enables: readonly number[];
  readonly requires: readonly number[];
  readonly aliases: ReadonlyMap<string, Range>;
  readonly structs: ReadonlyMap<string, { readonly members: readonly RawMember[] }>;
  readonly constants: ReadonlyMap<string, InitializedDeclaration>;
  readonly overrides: ReadonlyMap<string, InitializedDeclaration>;
  readonly variables: readonly RawVariable[];
  readonly functions: readonly RawFunction[];
}

/** Reads the attributes at token `at`. `end` is the token after them. */
export function readAttributes(
  tokens: readonly Token[],
  at: number,
): { attributes: Attribute[]; end: number } {
  const attributes: Attribute[] = [];
  let end = at;
  while (tokens[end]?.text === '@') {
    const name = tokens[end + 1]?.text ?? '';
    const open = tokens[end + 2];
    const hasArgs = open?.text === '(' && open.matchIndex > 0;
    const next = hasArgs ? open.matchIndex + 1 : end + 2;
    const args = hasArgs ? splitRange(tokens, { from: end + 3, to: open.matchIndex }) : [];
    attributes.push({ name, args, range: { from: end, to: next } });
    end = next;
  }
  return { attributes, end };
}

/** Reads `: T = value` after a name, up to token `end`. */
export function readInitializer(
  tokens: readonly Token[],
  at: number,
  end: number,
): { type?: Range; value?: Range } {
  const equals = findToken(tokens, { from: at, to: end }, '=');
  return {
    ...(tokens[at]?.text === ':' && { type: { from: at + 1, to: equals } }),
    ...(equals < end && { value: { from: equals + 1, to: end } }),
  };
}

const members = (tokens: readonly Token[], range: Range): RawMember[] =>
  splitRange(tokens, range).map((member) => {
    const { attributes, end } = readAttributes(tokens, member.from);
    return { name: end, attributes, type: { from: end + 2, to: member.to } };
  });

export function readDeclarations(tokens: readonly Token[]): Declarations {
  const enables: number[] = [];
  const requires: number[] = [];
  const aliases = new Map<string, Range>();
  const structs = new Map<string, { members: readonly RawMember[] }>();
  const constants = new Map<string, InitializedDeclaration>();
  const overrides = new Map<string, InitializedDeclaration>();
  const variables: RawVariable[] = [];
  const functions: RawFunction[] = [];
  const rest = (from: number): Range => ({ from, to: tokens.length });

  let at = 0;
  while (at < tokens.length) {
    const { attributes, end: start } = readAttributes(tokens, at);
    const keyword = tokens[start]?.text;
    const endsInSemicolon = keyword !== 'fn' && keyword !== 'struct';
    const end = endsInSemicolon ? findToken(tokens, rest(start), ';') : start;
    at = end + 1;
    switch (keyword) {
      case 'enable':
      case 'requires':
        for (const { from } of splitRange(tokens, { from: start + 1, to: end })) {
          (keyword === 'enable' ? enables : requires).push(from);
        }
        break;
      case 'alias':
        aliases.set(tokens[start + 1]?.text ?? '', { from: start + 3, to: end });
        break;
      case 'struct': {
        const open = tokens[start + 2];
        const close = open?.matchIndex ?? -1;
        structs.set(tokens[start + 1]?.text ?? '', {
          members: members(tokens, { from: start + 3, to: close }),
        });
        at = Math.max(start + 1, close + 1);
        break;
      }
      case 'const':
      case 'override': {
        const declared = { name: start + 1, attributes, ...readInitializer(tokens, start + 2, end) };
        (keyword === 'const' ? constants : overrides).set(tokens[start + 1]?.text ?? '', declared);
        break;
      }
      case 'var': {
        const open = tokens[start + 1];
        const isTemplate = open?.text === '<' && open.matchIndex > 0;
        const name = isTemplate ? open.matchIndex + 1 : start + 1;
        const template = isTemplate
          ? splitRange(tokens, { from: start + 2, to: open.matchIndex }).map(
              ({ from }) => tokens[from]?.text ?? '',
            )
          : [];
        variables.push({ name, attributes, template, ...readInitializer(tokens, name + 1, end) });
        break;
      }
      case 'fn': {
        const open = tokens[start + 2];
        const body = findToken(tokens, rest(start), '{');
        functions.push({
          name: start + 1,
          attributes,
          parameters: members(tokens, { from: start + 3, to: open?.matchIndex ?? start + 3 }),
          body,
        });
        at = Math.max(start + 1, (tokens[body]?.matchIndex ?? body) + 1);
        break;
      }
      case ';':
        at = start + 1;
        break;
      default:
    }
  }
  return { enables, requires, aliases, structs, constants, overrides, variables, functions };
}
