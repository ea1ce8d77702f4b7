import { GrammarError } from '../types.ts';
import { normalizeRanges, allCodePoints } from '../ebnf/code-points.ts';
import type { Expression } from '../ebnf/expression.ts';

const maxStates = 4000;
const maxEdges = 200_000;

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

const createTooComplexError = (): GrammarError =>
  new GrammarError(
    'grammar_too_complex',
    'a pattern needs too many states; make the pattern shorter or its repetition counts smaller',
  );

/** @throws GrammarError `grammar_too_complex` */
export function toAutomaton(expression: Expression): Automaton {
  const nfa = new NfaBuilder();
  const start = nfa.addState();
  const end = nfa.add(expression, start);
  return determinize(nfa, start, end);
}

/** A non-deterministic automaton: character edges and epsilon edges. */
class NfaBuilder {
  readonly edges: Edge[][] = [];
  readonly epsilonEdges: number[][] = [];

  addState(): number {
    if (this.edges.length >= 4 * maxStates) throw createTooComplexError();
    this.edges.push([]);
    this.epsilonEdges.push([]);
    return this.edges.length - 1;
  }

  /**
   * Adds an expression that starts in the state `from`.
   * @returns the end state
   */
  add(expression: Expression, from: number): number {
    switch (expression.kind) {
      case 'text': {
        let current = from;
        for (const character of expression.text) {
          const code = character.codePointAt(0) ?? 0;
          const next = this.addState();
          this.edges[current]?.push({ first: code, last: code, to: next });
          current = next;
        }
        return current;
      }
      case 'set': {
        const next = this.addState();
        for (const [first, last] of expression.set) this.edges[from]?.push({ first, last, to: next });
        return next;
      }
      case 'sequence':
        return expression.parts.reduce((current, part) => this.add(part, current), from);
      case 'choice': {
        const end = this.addState();
        for (const option of expression.options) {
          const start = this.addState();
          this.epsilonEdges[from]?.push(start);
          this.epsilonEdges[this.add(option, start)]?.push(end);
        }
        return end;
      }
      case 'repeat': {
        let current = from;
        for (let count = 0; count < expression.min; count++) current = this.add(expression.of, current);
        const end = this.addState();
        if (expression.max === Number.POSITIVE_INFINITY) {
          const loop = this.addState();
          this.epsilonEdges[current]?.push(loop);
          this.epsilonEdges[this.add(expression.of, loop)]?.push(loop);
          this.epsilonEdges[loop]?.push(end);
          return end;
        }
        for (let count = expression.min; count < expression.max; count++) {
          this.epsilonEdges[current]?.push(end);
          current = this.add(expression.of, current);
        }
        this.epsilonEdges[current]?.push(end);
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
    for (const addState of seen) for (const next of this.epsilonEdges[addState] ?? []) seen.add(next);
    return [...seen].sort((a, b) => a - b);
  }
}

function determinize(nfa: NfaBuilder, start: number, end: number): Automaton {
  const ids = new Map<string, number>();
  const stateSets: number[][] = [];
  const idOf = (states: number[]): number => {
    const key = states.join();
    const existing = ids.get(key);
    if (existing !== undefined) return existing;
    if (stateSets.length >= maxStates) throw createTooComplexError();
    ids.set(key, stateSets.length);
    return stateSets.push(states) - 1;
  };
  idOf(nfa.closure([start]));
  const edges: Edge[][] = [];
  let visitedEdges = 0;
  for (let index = 0; index < stateSets.length; index++) {
    const all = (stateSets[index] as number[]).flatMap((addState) => nfa.edges[addState] ?? []);
    visitedEdges += all.length;
    if (visitedEdges > maxEdges) throw createTooComplexError();
    edges.push(
      splitRanges(all).map(({ first, last, targets }) => ({ first, last, to: idOf(nfa.closure(targets)) })),
    );
  }
  return removeDeadStates({ edges, accepts: stateSets.map((states) => states.includes(end)) });
}

/** Splits the ranges of edges so that all characters of a range have the same targets. */
function splitRanges(edges: readonly Edge[]): { first: number; last: number; targets: number[] }[] {
  const boundaries = new Set<number>();
  for (const { first, last } of edges) boundaries.add(first).add(last + 1);
  const bounds = [...boundaries].sort((a, b) => a - b);
  if (edges.length * bounds.length > maxEdges * 10) throw createTooComplexError();
  const found: { first: number; last: number; targets: number[] }[] = [];
  for (let index = 0; index + 1 < bounds.length; index++) {
    const [first, next] = [bounds[index] as number, bounds[index + 1] as number];
    const targets = edges.filter((edge) => edge.first <= first && edge.last >= first).map(({ to }) => to);
    if (targets.length > 0) found.push({ first, last: next - 1, targets });
  }
  return found;
}

/** Removes states that lead to no accepting state, except the start state. */
function removeDeadStates({ edges, accepts }: Automaton): Automaton {
  const sources: number[][] = edges.map(() => []);
  for (const [from, list] of edges.entries()) for (const { to } of list) sources[to]?.push(from);
  const liveStates = new Set(accepts.flatMap((isAccepting, addState) => (isAccepting ? [addState] : [])));
  for (const addState of liveStates) for (const from of sources[addState] ?? []) liveStates.add(from);
  const keptStates = [...new Set([0, ...liveStates])].sort((a, b) => a - b);
  const newStates = new Map(keptStates.map((addState, index) => [addState, index]));
  return {
    edges: keptStates.map((addState) =>
      (edges[addState] ?? []).flatMap((edge) => {
        const to = liveStates.has(edge.to) ? newStates.get(edge.to) : undefined;
        return to === undefined ? [] : [{ ...edge, to }];
      }),
    ),
    accepts: keptStates.map((addState) => accepts[addState] ?? false),
  };
}

export function intersectAutomata(a: Automaton, b: Automaton): Automaton {
  const ids = new Map<number, number>();
  const pairs: [number, number][] = [];
  const idOf = (left: number, right: number): number => {
    const key = left * b.edges.length + right;
    const existing = ids.get(key);
    if (existing !== undefined) return existing;
    if (pairs.length >= maxStates) throw createTooComplexError();
    ids.set(key, pairs.length);
    return pairs.push([left, right]) - 1;
  };
  idOf(0, 0);
  const edges: Edge[][] = [];
  for (let index = 0; index < pairs.length; index++) {
    const [left, right] = pairs[index] as [number, number];
    const [leftEdges, rightEdges] = [a.edges[left] ?? [], b.edges[right] ?? []];
    const list: Edge[] = [];
    for (let i = 0, j = 0; i < leftEdges.length && j < rightEdges.length; ) {
      const [leftEdge, rightEdge] = [leftEdges[i] as Edge, rightEdges[j] as Edge];
      const first = Math.max(leftEdge.first, rightEdge.first);
      const last = Math.min(leftEdge.last, rightEdge.last);
      if (first <= last) list.push({ first, last, to: idOf(leftEdge.to, rightEdge.to) });
      if (leftEdge.last < rightEdge.last) i++;
      else j++;
    }
    edges.push(list);
  }
  const accepts = pairs.map(([left, right]) => a.accepts[left] === true && b.accepts[right] === true);
  return removeDeadStates({ edges, accepts });
}

/** The automaton of all texts that this one rejects. */
export function complementAutomaton({ edges, accepts }: Automaton): Automaton {
  const sinkState = edges.length;
  const completeEdges = edges.map((list) => {
    const uncovered = allCodePoints.flatMap(([start, end]) => {
      const missingEdges: Edge[] = [];
      let next = start;
      for (const { first, last } of list) {
        if (last < start || first > end) continue;
        if (first > next) missingEdges.push({ first: next, last: first - 1, to: sinkState });
        next = Math.max(next, last + 1);
      }
      if (next <= end) missingEdges.push({ first: next, last: end, to: sinkState });
      return missingEdges;
    });
    return [...list, ...uncovered].sort((a, b) => a.first - b.first);
  });
  const allCharacters = allCodePoints.map(([first, last]) => ({ first, last, to: sinkState }));
  return removeDeadStates({
    edges: [...completeEdges, allCharacters],
    accepts: [...accepts.map((one) => !one), true],
  });
}

export const acceptsNothing = ({ edges, accepts }: Automaton): boolean =>
  !accepts[0] && (edges[0]?.length ?? 0) === 0;

export function acceptsText({ edges, accepts }: Automaton, text: string): boolean {
  let addState = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    const edge = edges[addState]?.find(({ first, last }) => first <= code && code <= last);
    if (!edge) return false;
    addState = edge.to;
  }
  return accepts[addState] ?? false;
}

/** The character ranges from a state to each of its successors. */
export function transitionsFrom(
  automaton: Automaton,
  addState: number,
): [to: number, ranges: [number, number][]][] {
  const found = new Map<number, [number, number][]>();
  for (const { first, last, to } of automaton.edges[addState] ?? []) {
    const list = found.get(to);
    if (list) list.push([first, last]);
    else found.set(to, [[first, last]]);
  }
  return [...found].map(([to, ranges]) => [to, normalizeRanges(ranges).map(([a, b]) => [a, b])]);
}
