/**
 * Finds loops that may never end. The analysis identifies variables by name regardless of scope, and ignores by how
 * much a value changes. So it has no false positives, but does not find all such loops.
 */
import { isAddressOf } from './access.ts';
import { bodyOf, type Reflection } from './reflect.ts';
import { childrenOf, readStatements, type Statement } from './statements.ts';
import { placeOf, split, type Place, type Range, type Token } from './tokens.ts';
import { usesOf } from './uses.ts';

export interface DoubtfulLoop {
  /**
   * `spin`: only other invocations can end it. `endless`: nothing in it changes the variables of its exit conditions.
   * `data`: it has no counter, and only values loaded from buffers end it.
   */
  readonly kind: 'spin' | 'endless' | 'data';
  /** Variables of the exit conditions, for the message. */
  readonly variables: readonly string[];
  /** Location of the keyword. */
  readonly place: Place;
}

/** Module variables that a function reads and writes, directly or through functions that it calls. */
interface Effects {
  readonly reads: ReadonlySet<string>;
  readonly writes: ReadonlySet<string>;
}

type Loop = Extract<Statement, { kind: 'loop' | 'while' | 'for' }>;

export function doubtfulLoops(reflection: Reflection): DoubtfulLoop[] {
  const found: DoubtfulLoop[] = [];
  const effects = effectsIn(reflection);
  for (const fn of reflection.functions) {
    const addressed = addressesIn(reflection.tokens, bodyOf(reflection.tokens, fn));
    const visit = (statement: Statement): void => {
      if (statement.kind === 'loop' || statement.kind === 'while' || statement.kind === 'for') {
        const doubt = judge(reflection, statement, effects, addressed);
        if (doubt) found.push(doubt);
      }
      childrenOf(statement).forEach(visit);
    };
    readStatements(reflection.tokens, bodyOf(reflection.tokens, fn)).forEach(visit);
  }
  return found;
}

/** Returns undefined for names that are not functions of the module. */
type EffectsOf = (name: string) => Effects | undefined;

function effectsIn(reflection: Reflection): EffectsOf {
  const { tokens } = reflection;
  const variables = new Set(reflection.variables.map(({ name }) => name));
  const functions = new Map(reflection.functions.map((fn) => [fn.name, usesOf(reflection, fn)]));
  const known = new Map<string, Effects>();
  return (name) => {
    if (!functions.has(name)) return undefined;
    const found = known.get(name);
    if (found) return found;
    const [reads, writes] = [new Set<string>(), new Set<string>()];
    const reached = new Set([name]);
    // The set grows during the iteration.
    for (const one of reached) {
      for (const use of functions.get(one) ?? []) {
        if (functions.has(use.name)) reached.add(use.name);
        if (!variables.has(use.name)) continue;
        const loads = tokens[use.token - 3]?.text === 'atomicLoad';
        if (use.assigned || (isAddressOf(tokens, use.token - 1) && !loads)) writes.add(use.name);
        reads.add(use.name);
      }
    }
    known.set(name, { reads, writes });
    return { reads, writes };
  };
}

/** Transitive dependencies of an expression, through the assignments of the loop. */
interface Closure {
  /** Names that the loop assigns or declares. */
  readonly assigned: Set<string>;
  /** Variables in memory that other invocations can write. */
  readonly shared: Set<string>;
  /** Variables of read-only buffers. */
  readonly loads: Set<string>;
  /** A dependency can change independently of memory, for example a pointer target or a variable that a call writes. */
  counted: boolean;
}

function judge(
  reflection: Reflection,
  loop: Loop,
  effects: EffectsOf,
  /** Names that can change through a pointer. */
  addressed: ReadonlySet<string>,
): DoubtfulLoop | undefined {
  const { tokens } = reflection;
  const changes = changesIn(tokens, loop);
  const spaceOf = new Map(reflection.variables.map((one) => [one.name, one]));
  const called = [...namesIn(tokens, loop)].flatMap((name) => effects(name) ?? []);

  const closureOf = (ranges: readonly Range[]): Closure => {
    const closure: Closure = { assigned: new Set(), shared: new Set(), loads: new Set(), counted: false };
    const seen = new Set<string>();
    const queue = [...ranges];
    const note = (name: string): void => {
      const variable = spaceOf.get(name);
      if (variable?.space === 'workgroup') closure.shared.add(name);
      else if (variable?.space === 'storage') {
        (variable.access === 'read' ? closure.loads : closure.shared).add(name);
      } else if (addressed.has(name) || called.some(({ writes }) => writes.has(name))) closure.counted = true;
    };
    for (let range = queue.pop(); range; range = queue.pop()) {
      for (const name of namesIn(tokens, range)) {
        if (seen.has(name)) continue;
        seen.add(name);
        note(name);
        effects(name)?.reads.forEach(note);
        const assignments = changes.get(name);
        if (
          !assignments ||
          spaceOf.get(name)?.space === 'storage' ||
          spaceOf.get(name)?.space === 'workgroup'
        ) {
          continue;
        }
        closure.assigned.add(name);
        queue.push(...assignments.map(({ value }) => value));
      }
    }
    return closure;
  };
  /** How a variable changes from its previous value: `counts` by arithmetic alone, `follows` with loaded values. */
  const stepOf = (name: string): 'counts' | 'follows' | undefined => {
    let step: 'counts' | 'follows' | undefined;
    for (const { operator, value } of changes.get(name) ?? []) {
      const { assigned, shared, loads, counted } = closureOf([value]);
      if (operator === '=' && !assigned.has(name)) continue;
      if (counted || (shared.size === 0 && loads.size === 0)) return 'counts';
      step = 'follows';
    }
    return step;
  };

  const exits = exitsOf(loop);
  const closures = exits.map(closureOf);
  if (exits.some((conditions) => conditions.length === 0) || closures.some(({ counted }) => counted)) {
    return undefined;
  }
  const assigned = new Set(closures.flatMap((one) => [...one.assigned]));
  const shared = new Set(closures.flatMap((one) => [...one.shared]));
  const loads = new Set(closures.flatMap((one) => [...one.loads]));
  const steps = [...assigned].map(stepOf);
  if (steps.includes('counts')) return undefined;

  const keyword = placeOf(tokens, { from: loop.from, to: loop.from + 1 });
  const doubt = (kind: DoubtfulLoop['kind'], variables: Iterable<string>): DoubtfulLoop => ({
    kind,
    variables: [...variables],
    place: keyword,
  });
  const follows = steps.includes('follows');
  if (shared.size > 0) {
    const locked = [...shared].filter((name) => isLock(tokens, loop, name, changes));
    if (locked.length > 0 && !follows) return doubt('spin', locked);
    const written = [...shared].some(
      (name) => changes.has(name) || called.some(({ writes }) => writes.has(name)),
    );
    return doubt(follows || written || isUpdated(tokens, loop, shared) ? 'data' : 'spin', shared);
  }
  if (follows) return doubt('data', loads);
  return assigned.size === 0 ? doubt('endless', loads) : undefined;
}

type Change = { readonly operator: string; readonly value: Range };

/** Assignments and declarations in a loop, by the name of their variable. */
function changesIn(tokens: readonly Token[], loop: Loop): ReadonlyMap<string, readonly Change[]> {
  const changes = new Map<string, Change[]>();
  const add = (token: number, change: Change): void => {
    const name = tokens[token]?.text ?? '';
    changes.set(name, [...(changes.get(name) ?? []), change]);
  };
  const visit = (statement: Statement): void => {
    if (statement.kind === 'declare' && statement.value) {
      add(statement.name, { operator: '=', value: statement.value });
    } else if (statement.kind === 'assign') {
      let root = statement.target.from;
      while (tokens[root]?.kind === 'symbol' && root < statement.target.to) root++;
      add(root, { operator: statement.operator, value: statement.value });
    }
    childrenOf(statement).forEach(visit);
  };
  // The `init` statement of a `for` is not a change.
  const inside = loop.kind === 'for' ? [...loop.body, ...loop.update] : loop.body;
  inside.forEach(visit);
  return changes;
}

/** All conditions of each exit of the loop. */
function exitsOf(loop: Loop): Range[][] {
  const exits: Range[][] = [];
  const visit = (statement: Statement, conditions: Range[], breaks: boolean): void => {
    const all = (list: readonly Statement[], more: Range[], still: boolean): void =>
      list.forEach((one) => visit(one, [...conditions, ...more], still));
    switch (statement.kind) {
      case 'break':
        if (breaks) exits.push(conditions);
        break;
      case 'break_if':
        if (breaks) exits.push([...conditions, statement.condition]);
        break;
      case 'return':
        exits.push(conditions);
        break;
      case 'if': {
        const before: Range[] = [];
        for (const { condition, body } of statement.branches) {
          if (condition) before.push(condition);
          all(body, before, breaks);
        }
        break;
      }
      case 'switch':
        for (const body of statement.cases) all(body, [statement.condition], false);
        break;
      case 'block':
      case 'continuing':
        all(statement.body, [], breaks);
        break;
      case 'loop':
        all(statement.body, [], false);
        break;
      case 'while':
        all(statement.body, [statement.condition], false);
        break;
      case 'for':
        all(statement.body, statement.condition ? [statement.condition] : [], false);
        break;
      case 'continue':
      case 'declare':
      case 'assign':
      case 'call':
        break;
    }
  };
  if (loop.kind !== 'loop' && loop.condition) exits.push([loop.condition]);
  loop.body.forEach((statement) => visit(statement, [], true));
  return exits;
}

function* namesIn(tokens: readonly Token[], { from, to }: Range): Generator<string> {
  for (let i = from; i < to; i++) {
    const token = tokens[i];
    if (token?.kind === 'name' && tokens[i - 1]?.text !== '.') yield token.text;
  }
}

/** Names whose address is taken: they can change through a pointer. */
function addressesIn(tokens: readonly Token[], { from, to }: Range): ReadonlySet<string> {
  const names = new Set<string>();
  for (let i = from; i < to; i++) {
    const next = tokens[i + 1];
    if (isAddressOf(tokens, i) && next?.kind === 'name') names.add(next.text);
  }
  return names;
}

/** Atomic calls `atomicX(&name..., rest)` in a loop. */
function* atomicCalls(tokens: readonly Token[], { from, to }: Range, name: string) {
  for (let i = from; i < to; i++) {
    const verb = tokens[i]?.text ?? '';
    const open = tokens[i + 1];
    if (!verb.startsWith('atomic') || open?.text !== '(' || tokens[i + 3]?.text !== name) continue;
    yield { verb, rest: split(tokens, { from: i + 2, to: open.partner }).slice(1) };
  }
}

/**
 * Whether a variable is a lock: exchanged for a value that does not depend on a read, so that others must release it.
 */
function isLock(
  tokens: readonly Token[],
  loop: Loop,
  name: string,
  changes: ReadonlyMap<string, readonly Change[]>,
): boolean {
  for (const { verb, rest } of atomicCalls(tokens, loop, name)) {
    if (verb !== 'atomicCompareExchangeWeak' && verb !== 'atomicExchange') continue;
    const [wanted] = rest;
    if (!wanted) continue;
    const names = [...namesIn(tokens, wanted)];
    if (!names.some((one) => changes.has(one) || one.startsWith('atomic'))) return true;
  }
  return false;
}

/** Whether an atomic operation in the loop changes a variable in each iteration; adding 0 does not count. */
function isUpdated(tokens: readonly Token[], loop: Loop, names: Iterable<string>): boolean {
  for (const name of names) {
    for (const { verb, rest } of atomicCalls(tokens, loop, name)) {
      const operand = rest[0] && tokens[rest[0].from]?.text;
      if (verb !== 'atomicLoad' && !/^0[ui]?$/.test(operand ?? '')) return true;
    }
  }
  return false;
}
