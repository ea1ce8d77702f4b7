import type { Candidate } from '../catalog/types.ts';
import { hashOf, hashPrefix, mixBits } from './prefix-hash.ts';

/** What the order of the deployments depends on, apart from their settings. */
export interface OrderFacts {
  /** Prompt prefix, for sticky routing. */
  readonly prefix: string;
  /** Estimated cost in nanodollars, for `least_cost`. */
  readonly costOf: (candidate: Candidate) => bigint;
  /** How long the deployment must still be spared after a failure, in ms; 0: it is available. */
  readonly cooldownMsOf: (candidate: Candidate) => number;
  /** Expected time to the answer in ms, for `least_latency`; -Infinity: it is to be measured. */
  readonly latencyMsOf: (candidate: Candidate) => number;
  /** Returns a number from 0 to below 1. */
  readonly random: () => number;
}

/** Sorts the deployments of each model by its routing. Other candidates keep their places. */
export function orderCandidates(candidates: readonly Candidate[], facts: OrderFacts): Candidate[] {
  if (candidates.length < 2) return [...candidates];
  let prefixHash: number | undefined;
  const prefixHashOf = () => (prefixHash ??= hashPrefix(facts.prefix));
  return groupByModel(candidates).flatMap((group) =>
    group.length > 1 ? orderDeployments(group, facts, prefixHashOf) : group,
  );
}

/** Splits candidates into models: the deployments of a model are together. */
export function groupByModel(candidates: readonly Candidate[]): readonly (readonly Candidate[])[] {
  if (candidates.length < 2) return candidates.length === 0 ? [] : [candidates];
  const groups = Map.groupBy(candidates, (candidate) => (candidate.route ? candidate.model.id : candidate));
  return [...groups.values()];
}

interface SortKey {
  readonly candidate: Candidate;
  /** Compared one after the other, lowest first. */
  readonly ranks: readonly number[];
}

/**
 * Deployments that cool down come last. The others are sorted by what the strategy compares: priority, cost or latency; those
 * that are equal in it are drawn by weight.
 */
function orderDeployments(
  group: readonly Candidate[],
  facts: OrderFacts,
  prefixHashOf: () => number,
): Candidate[] {
  const keys = group.map(
    (candidate): SortKey => ({
      candidate,
      ranks: [
        facts.cooldownMsOf(candidate),
        rankOf(candidate, facts),
        shareOf(candidate, facts, prefixHashOf),
      ],
    }),
  );
  return keys.sort(compare).map(({ candidate }) => candidate);
}

function rankOf(candidate: Candidate, { costOf, latencyMsOf }: OrderFacts): number {
  const { route } = candidate;
  switch (route?.routing.strategy) {
    case 'priority':
      return route.deployment.priority;
    case 'least_cost':
      return Number(costOf(candidate));
    case 'least_latency':
      return latencyMsOf(candidate);
    case 'weighted':
    case undefined:
      return 0;
  }
}

/**
 * An exponential variable with the weight as its rate: the deployment with the smallest one is drawn in proportion to its weight,
 * and so is the next of the rest. For sticky routing it is a function of the prefix and the deployment (weighted rendezvous
 * hashing): a deployment that is added or removed moves only its own share of the prefixes.
 */
function shareOf({ route }: Candidate, { random }: OrderFacts, prefixHashOf: () => number): number {
  if (!route) return 0;
  const { routing, deployment } = route;
  const uniform = routing.sticky
    ? (mixBits(prefixHashOf() ^ hashOf(deployment.id)) + 0.5) / 2 ** 32
    : 1 - random();
  return -Math.log(uniform) / deployment.weight;
}

function compare({ ranks: a }: SortKey, { ranks: b }: SortKey): number {
  for (const [index, rank] of a.entries()) {
    const other = b[index] ?? 0;
    if (rank !== other) return rank < other ? -1 : 1;
  }
  return 0;
}
