import { GrammarError } from '../types.ts';
import { codePoints, everyCharacter } from '../ebnf/code-points.ts';
import type { Expression } from '../ebnf/expression.ts';

const mostStates = 4000;
const mostEdges = 200_000;

interface Edge {
  readonly first: number;
  readonly last: number;
  readonly to: number;
}

/** A deterministic finite automaton over characters. State 0 is the start; a character without an edge is rejected. */
export interface Automaton {
  /** Edges by state, sorted by character and disjoint. */
  readonly edges: readonly (readonly Edge[])[];
  readonly accepts: readonly boolean[];
}

const tooMany = (): GrammarError =>
  new GrammarError(
    'grammar_too_complex',
    'a pattern needs too many states; make the pattern shorter or its repetition counts smaller',
  );

/** @throws GrammarError `grammar_too_complex` */
export function toAutomaton(expression: Expression): Automaton {
  const steps = new Steps();
  const start = steps.state();
  const end = steps.add(expression, start);
  return determine(steps, start, end);
}

/** A non-deterministic automaton: character edges and epsilon edges. */
class Steps {
  readonly edges: Edge[][] = [];
  readonly free: number[][] = [];

  state(): number {
    if (this.edges.length >= 4 * mostStates) throw tooMany();
    this.edges.push([]);
    this.free.push([]);
    return this.edges.length - 1;
  }

  /**
   * Adds an expression that starts in the state `from`.
   * @returns the end state
   */
  add(expression: Expression, from: number): number {
    switch (expression.kind) {
      case 'text': {
        let at = from;
        for (const character of expression.text) {
          const code = character.codePointAt(0) ?? 0;
          const next = this.state();
          this.edges[at]?.push({ first: code, last: code, to: next });
          at = next;
        }
        return at;
      }
      case 'set': {
        const next = this.state();
        for (const [first, last] of expression.set) this.edges[from]?.push({ first, last, to: next });
        return next;
      }
      case 'sequence':
        return expression.parts.reduce((at, part) => this.add(part, at), from);
      case 'choice': {
        const end = this.state();
        for (const option of expression.options) {
          const start = this.state();
          this.free[from]?.push(start);
          this.free[this.add(option, start)]?.push(end);
        }
        return end;
      }
      case 'repeat': {
        let at = from;
        for (let count = 0; count < expression.min; count++) at = this.add(expression.of, at);
        const end = this.state();
        if (expression.max === Number.POSITIVE_INFINITY) {
          const loop = this.state();
          this.free[at]?.push(loop);
          this.free[this.add(expression.of, loop)]?.push(loop);
          this.free[loop]?.push(end);
          return end;
        }
        for (let count = expression.min; count < expression.max; count++) {
          this.free[at]?.push(end);
          at = this.add(expression.of, at);
        }
        this.free[at]?.push(end);
        return end;
      }
      case 'rule':
      case 'mark':
      case 'free':
        throw new Error(`a pattern has no ${expression.kind}`);
    }
  }

  closure(states: Iterable<number>): number[] {
    const seen = new Set(states);
    for (const state of seen) for (const next of this.free[state] ?? []) seen.add(next);
    return [...seen].sort((a, b) => a - b);
  }
}

function determine(steps: Steps, start: number, end: number): Automaton {
  const ids = new Map<string, number>();
  const sets: number[][] = [];
  const idOf = (states: number[]): number => {
    const key = states.join();
    const known = ids.get(key);
    if (known !== undefined) return known;
    if (sets.length >= mostStates) throw tooMany();
    ids.set(key, sets.length);
    return sets.push(states) - 1;
  };
  idOf(steps.closure([start]));
  const edges: Edge[][] = [];
  let work = 0;
  for (let at = 0; at < sets.length; at++) {
    const all = (sets[at] as number[]).flatMap((state) => steps.edges[state] ?? []);
    work += all.length;
    if (work > mostEdges) throw tooMany();
    edges.push(
      pieces(all).map(({ first, last, targets }) => ({ first, last, to: idOf(steps.closure(targets)) })),
    );
  }
  return trimmed({ edges, accepts: sets.map((states) => states.includes(end)) });
}

/** Splits the ranges of edges so that all characters of a range have the same targets. */
function pieces(edges: readonly Edge[]): { first: number; last: number; targets: number[] }[] {
  const cuts = new Set<number>();
  for (const { first, last } of edges) cuts.add(first).add(last + 1);
  const bounds = [...cuts].sort((a, b) => a - b);
  if (edges.length * bounds.length > mostEdges * 10) throw tooMany();
  const found: { first: number; last: number; targets: number[] }[] = [];
  for (let index = 0; index + 1 < bounds.length; index++) {
    const [first, next] = [bounds[index] as number, bounds[index + 1] as number];
    const targets = edges.filter((edge) => edge.first <= first && edge.last >= first).map(({ to }) => to);
    if (targets.length > 0) found.push({ first, last: next - 1, targets });
  }
  return found;
}

/** Removes states that lead to no accepting state, except the start state. */
function trimmed({ edges, accepts }: Automaton): Automaton {
  const sources: number[][] = edges.map(() => []);
  for (const [from, list] of edges.entries()) for (const { to } of list) sources[to]?.push(from);
  const alive = new Set(accepts.flatMap((accepted, state) => (accepted ? [state] : [])));
  for (const state of alive) for (const from of sources[state] ?? []) alive.add(from);
  const order = [...new Set([0, ...alive])].sort((a, b) => a - b);
  const names = new Map(order.map((state, index) => [state, index]));
  return {
    edges: order.map((state) =>
      (edges[state] ?? []).flatMap((edge) => {
        const to = alive.has(edge.to) ? names.get(edge.to) : undefined;
        return to === undefined ? [] : [{ ...edge, to }];
      }),
    ),
    accepts: order.map((state) => accepts[state] ?? false),
  };
}

export function both(a: Automaton, b: Automaton): Automaton {
  const ids = new Map<number, number>();
  const pairs: [number, number][] = [];
  const idOf = (left: number, right: number): number => {
    const key = left * b.edges.length + right;
    const known = ids.get(key);
    if (known !== undefined) return known;
    if (pairs.length >= mostStates) throw tooMany();
    ids.set(key, pairs.length);
    return pairs.push([left, right]) - 1;
  };
  idOf(0, 0);
  const edges: Edge[][] = [];
  for (let at = 0; at < pairs.length; at++) {
    const [left, right] = pairs[at] as [number, number];
    const [ours, theirs] = [a.edges[left] ?? [], b.edges[right] ?? []];
    const list: Edge[] = [];
    for (let i = 0, j = 0; i < ours.length && j < theirs.length; ) {
      const [mine, other] = [ours[i] as Edge, theirs[j] as Edge];
      const first = Math.max(mine.first, other.first);
      const last = Math.min(mine.last, other.last);
      if (first <= last) list.push({ first, last, to: idOf(mine.to, other.to) });
      if (mine.last < other.last) i++;
      else j++;
    }
    edges.push(list);
  }
  const accepts = pairs.map(([left, right]) => a.accepts[left] === true && b.accepts[right] === true);
  return trimmed({ edges, accepts });
}

/** The automaton of all texts that this one rejects. */
export function not({ edges, accepts }: Automaton): Automaton {
  const sink = edges.length;
  const filled = edges.map((list) => {
    const rest = everyCharacter.flatMap(([start, end]) => {
      const gaps: Edge[] = [];
      let next = start;
      for (const { first, last } of list) {
        if (last < start || first > end) continue;
        if (first > next) gaps.push({ first: next, last: first - 1, to: sink });
        next = Math.max(next, last + 1);
      }
      if (next <= end) gaps.push({ first: next, last: end, to: sink });
      return gaps;
    });
    return [...list, ...rest].sort((a, b) => a.first - b.first);
  });
  const everything = everyCharacter.map(([first, last]) => ({ first, last, to: sink }));
  return trimmed({ edges: [...filled, everything], accepts: [...accepts.map((one) => !one), true] });
}

export const isNever = ({ edges, accepts }: Automaton): boolean =>
  !accepts[0] && (edges[0]?.length ?? 0) === 0;

export function matches({ edges, accepts }: Automaton, text: string): boolean {
  let state = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    const edge = edges[state]?.find(({ first, last }) => first <= code && code <= last);
    if (!edge) return false;
    state = edge.to;
  }
  return accepts[state] ?? false;
}

/** The character ranges from a state to each of its successors. */
export function stepsFrom(automaton: Automaton, state: number): [to: number, ranges: [number, number][]][] {
  const found = new Map<number, [number, number][]>();
  for (const { first, last, to } of automaton.edges[state] ?? []) {
    const list = found.get(to);
    if (list) list.push([first, last]);
    else found.set(to, [[first, last]]);
  }
  return [...found].map(([to, ranges]) => [to, codePoints(ranges).map(([a, b]) => [a, b])]);
}
