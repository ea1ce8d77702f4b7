/**
 * Finds loops that may never end. The analysis identifies variables by name regardless of scope, and ignores by how
 * much a value changes. So it has no false positives, but does not find all such loops.
 */
import { isAddressOf } from './access.ts';
import { bodyOf, type Reflection } from './reflect.ts';
import { childrenOf, readStatements, type Statement } from './statements.ts';
import { locationOf, splitRange, type SourceLocation, type Range, type Token } from './tokens.ts';
import { findUses } from './uses.ts';

export interface SuspiciousLoop {
  /**
   * `spin`: only other invocations can end it. `endless`: nothing in it changes the variables of its exit conditions.
   * `data`: it has no counter, and only values loaded from buffers end it. `unbounded`: a counter must meet a value that its
   * steps can pass over.
   */
  readonly kind: 'spin' | 'endless' | 'data' | 'unbounded';
  /** Variables of the exit conditions, for the message. */
  readonly variables: readonly string[];
  /** Location of the keyword. */
  readonly location: SourceLocation;
}

/** Module variables that a function reads and writes, directly or through functions that it calls. */
interface Effects {
  readonly reads: ReadonlySet<string>;
  readonly writes: ReadonlySet<string>;
}

type Loop = Extract<Statement, { kind: 'loop' | 'while' | 'for' }>;

export function findSuspiciousLoops(reflection: Reflection): SuspiciousLoop[] {
  const suspicious: SuspiciousLoop[] = [];
  const effects = createEffectsLookup(reflection);
  for (const fn of reflection.functions) {
    const addressTaken = addressTakenIn(reflection.tokens, bodyOf(reflection.tokens, fn));
    const visit = (statement: Statement): void => {
      if (statement.kind === 'loop' || statement.kind === 'while' || statement.kind === 'for') {
        const loop = analyzeLoop(reflection, statement, effects, addressTaken);
        if (loop) suspicious.push(loop);
      }
      childrenOf(statement).forEach(visit);
    };
    readStatements(reflection.tokens, bodyOf(reflection.tokens, fn)).forEach(visit);
  }
  return suspicious;
}

/** Returns undefined for names that are not functions of the module. */
type EffectsOf = (name: string) => Effects | undefined;

function createEffectsLookup(reflection: Reflection): EffectsOf {
  const { tokens } = reflection;
  const variables = new Set(reflection.variables.map(({ name }) => name));
  const functions = new Map(reflection.functions.map((fn) => [fn.name, findUses(reflection, fn)]));
  const cache = new Map<string, Effects>();
  return (name) => {
    if (!functions.has(name)) return undefined;
    const suspicious = cache.get(name);
    if (suspicious) return suspicious;
    const [reads, writes] = [new Set<string>(), new Set<string>()];
    const reached = new Set([name]);
    // The set grows during the iteration.
    for (const one of reached) {
      for (const use of functions.get(one) ?? []) {
        if (functions.has(use.name)) reached.add(use.name);
        if (!variables.has(use.name)) continue;
        const loads = tokens[use.token - 3]?.text === 'atomicLoad';
        if (use.isAssigned || (isAddressOf(tokens, use.token - 1) && !loads)) writes.add(use.name);
        reads.add(use.name);
      }
    }
    cache.set(name, { reads, writes });
    return { reads, writes };
  };
}

/** Transitive dependencies of an expression, through the assignments of the loop. */
interface Dependencies {
  /** Names that the loop assigns or declares. */
  readonly assigned: Set<string>;
  /** Variables in memory that other invocations can write. */
  readonly shared: Set<string>;
  /** Variables of read-only buffers. */
  readonly loads: Set<string>;
  /** A dependency can change independently of memory, for example a pointer target or a variable that a call writes. */
  changesIndependently: boolean;
}

function analyzeLoop(
  reflection: Reflection,
  loop: Loop,
  effects: EffectsOf,
  /** Names that can change through a pointer. */
  addressTaken: ReadonlySet<string>,
): SuspiciousLoop | undefined {
  const { tokens } = reflection;
  const changes = changesIn(tokens, loop);
  const variablesByName = new Map(reflection.variables.map((one) => [one.name, one]));
  const called = [...namesIn(tokens, loop)].flatMap((name) => effects(name) ?? []);

  const dependenciesOf = (ranges: readonly Range[]): Dependencies => {
    const dependencies: Dependencies = {
      assigned: new Set(),
      shared: new Set(),
      loads: new Set(),
      changesIndependently: false,
    };
    const seen = new Set<string>();
    const queue = [...ranges];
    const addDependency = (name: string): void => {
      const variable = variablesByName.get(name);
      if (variable?.space === 'workgroup') dependencies.shared.add(name);
      else if (variable?.space === 'storage') {
        (variable.access === 'read' ? dependencies.loads : dependencies.shared).add(name);
      } else if (addressTaken.has(name) || called.some(({ writes }) => writes.has(name)))
        dependencies.changesIndependently = true;
    };
    for (let range = queue.pop(); range; range = queue.pop()) {
      for (const name of namesIn(tokens, range)) {
        if (seen.has(name)) continue;
        seen.add(name);
        addDependency(name);
        effects(name)?.reads.forEach(addDependency);
        const assignments = changes.get(name);
        if (
          !assignments ||
          variablesByName.get(name)?.space === 'storage' ||
          variablesByName.get(name)?.space === 'workgroup'
        ) {
          continue;
        }
        dependencies.assigned.add(name);
        queue.push(...assignments.map(({ value }) => value));
      }
    }
    return dependencies;
  };
  /** How a variable changes from its previous value: `counts` by arithmetic alone, `follows` with loaded values. */
  const changeKindOf = (name: string): 'counts' | 'follows' | undefined => {
    let step: 'counts' | 'follows' | undefined;
    for (const { operator, value } of changes.get(name) ?? []) {
      const { assigned, shared, loads, changesIndependently } = dependenciesOf([value]);
      if (operator === '=' && !assigned.has(name)) continue;
      if (changesIndependently || (shared.size === 0 && loads.size === 0)) return 'counts';
      step = 'follows';
    }
    return step;
  };

  const exits = exitsOf(loop);
  const dependencies = exits.map(dependenciesOf);
  if (
    exits.some((conditions) => conditions.length === 0) ||
    dependencies.some(({ changesIndependently }) => changesIndependently)
  ) {
    return undefined;
  }
  const assigned = new Set(dependencies.flatMap((one) => [...one.assigned]));
  const shared = new Set(dependencies.flatMap((one) => [...one.shared]));
  const loads = new Set(dependencies.flatMap((one) => [...one.loads]));
  const steps = [...assigned].map(changeKindOf);
  const keyword = locationOf(tokens, { from: loop.from, to: loop.from + 1 });
  const doubt = (kind: SuspiciousLoop['kind'], variables: Iterable<string>): SuspiciousLoop => ({
    kind,
    variables: [...variables],
    location: keyword,
  });
  if (steps.includes('counts')) {
    const values = [...assigned].flatMap((name) => (changes.get(name) ?? []).map(({ value }) => value));
    const isBounded =
      exits.length === 0 ||
      [...exits.flat(), ...values].some((range) => hasBound(reflection, range)) ||
      [...assigned].some((name) => stepsByOne(tokens, changes.get(name) ?? [])) ||
      (exits.flat().some((range) => comparesWithZero(tokens, range)) &&
        [...assigned].some((name) => shrinks(changes.get(name) ?? [])));
    return isBounded ? undefined : doubt('unbounded', assigned);
  }
  const hasLoadedChange = steps.includes('follows');
  if (shared.size > 0) {
    const locks = [...shared].filter((name) => isLock(tokens, loop, name, changes));
    if (locks.length > 0 && !hasLoadedChange) return doubt('spin', locks);
    const written = [...shared].some(
      (name) => changes.has(name) || called.some(({ writes }) => writes.has(name)),
    );
    return doubt(hasLoadedChange || written || isUpdated(tokens, loop, shared) ? 'data' : 'spin', shared);
  }
  if (hasLoadedChange) return doubt('data', loads);
  return assigned.size === 0 ? doubt('endless', loads) : undefined;
}

/** Whether a range compares by order, other than an unsigned value with 0, or calls a function that may. */
function hasBound({ tokens, functions }: Reflection, { from, to }: Range): boolean {
  for (let i = from; i < to; i++) {
    const token = tokens[i];
    if (!token) continue;
    if (functions.some(({ name }) => name === token.text)) return true;
    if (token.matchIndex >= 0) continue;
    if (token.text === '<' || token.text === '>') return true;
    if (token.text === '>=' && !/^0u$/.test(tokens[i + 1]?.text ?? '')) return true;
    if (token.text === '<=' && !/^0u$/.test(tokens[i - 1]?.text ?? '')) return true;
  }
  return false;
}

/** Whether a variable only counts up or down by 1, and so meets every value. */
const stepsByOne = (tokens: readonly Token[], changes: readonly Change[]): boolean =>
  changes.length > 0 &&
  changes.every(({ operator, value: { from, to } }) => {
    if (operator === '++' || operator === '--') return true;
    const last = tokens[to - 1]?.text ?? '';
    if (operator === '+=' || operator === '-=') return to === from + 1 && /^1[ui]?$/.test(last);
    const before = tokens[to - 2]?.text;
    return operator === '=' && to === from + 3 && /^1[ui]?$/.test(last) && (before === '+' || before === '-');
  });

const comparesWithZero = (tokens: readonly Token[], { from, to }: Range): boolean =>
  tokens.slice(from, to).some(({ kind, text }) => kind === 'number' && /^0[ui]?$/.test(text));

/** Whether a variable only loses bits, and so becomes 0. */
const shrinks = (changes: readonly Change[]): boolean =>
  changes.length > 0 && changes.every(({ operator }) => ['>>=', '<<=', '/='].includes(operator));

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
  const visit = (statement: Statement, conditions: Range[], canBreak: boolean): void => {
    const visitAll = (list: readonly Statement[], moreConditions: Range[], canBreakInside: boolean): void =>
      list.forEach((one) => visit(one, [...conditions, ...moreConditions], canBreakInside));
    switch (statement.kind) {
      case 'break':
        if (canBreak) exits.push(conditions);
        break;
      case 'break_if':
        if (canBreak) exits.push([...conditions, statement.condition]);
        break;
      case 'return':
        exits.push(conditions);
        break;
      case 'if': {
        const before: Range[] = [];
        for (const { condition, body } of statement.branches) {
          if (condition) before.push(condition);
          visitAll(body, before, canBreak);
        }
        break;
      }
      case 'switch':
        for (const body of statement.cases) visitAll(body, [statement.condition], false);
        break;
      case 'block':
      case 'continuing':
        visitAll(statement.body, [], canBreak);
        break;
      case 'loop':
        visitAll(statement.body, [], false);
        break;
      case 'while':
        visitAll(statement.body, [statement.condition], false);
        break;
      case 'for':
        visitAll(statement.body, statement.condition ? [statement.condition] : [], false);
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
function addressTakenIn(tokens: readonly Token[], { from, to }: Range): ReadonlySet<string> {
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
    const callee = tokens[i]?.text ?? '';
    const open = tokens[i + 1];
    if (!callee.startsWith('atomic') || open?.text !== '(' || tokens[i + 3]?.text !== name) continue;
    yield { callee, rest: splitRange(tokens, { from: i + 2, to: open.matchIndex }).slice(1) };
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
  for (const { callee, rest } of atomicCalls(tokens, loop, name)) {
    if (callee !== 'atomicCompareExchangeWeak' && callee !== 'atomicExchange') continue;
    const [newValue] = rest;
    if (!newValue) continue;
    const names = [...namesIn(tokens, newValue)];
    if (!names.some((one) => changes.has(one) || one.startsWith('atomic'))) return true;
  }
  return false;
}

/** Whether an atomic operation in the loop changes a variable in each iteration; adding 0 does not count. */
function isUpdated(tokens: readonly Token[], loop: Loop, names: Iterable<string>): boolean {
  for (const name of names) {
    for (const { callee, rest } of atomicCalls(tokens, loop, name)) {
      const operand = rest[0] && tokens[rest[0].from]?.text;
      if (callee !== 'atomicLoad' && !/^0[ui]?$/.test(operand ?? '')) return true;
    }
  }
  return false;
}
