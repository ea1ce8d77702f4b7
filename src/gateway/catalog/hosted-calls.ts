import type { HostedTool, Usage } from '../../wires/core/types.ts';
import type { RequestFacts } from '../../wires/core/wire.ts';
import type { Model } from './types.ts';

type CallFacts = Pick<RequestFacts, 'hostedTools' | 'maxHostedCalls' | 'answers'>;
type PricedModel = Pick<Model, 'price'> & { readonly provider?: Pick<Model['provider'], 'wire'> };

/** The largest number of calls that a request may make of the tools that the provider runs. */
export interface CallBound {
  /** The calls of all tools together. */
  readonly total: number;
  readonly byTool: ReadonlyMap<
    HostedTool,
    { readonly most: number /** Billed also where no call is reported. */; readonly least: number }
  >;
  /** The maximum cost of the calls, in picodollars. */
  readonly cost: bigint;
}

const none: CallBound = { total: 0, byTool: new Map(), cost: 0n };

/** Bounds the calls of a request: by its own limits, else by that of the rate card. */
export function boundCalls({ price, provider }: PricedModel, facts: CallFacts): CallBound {
  const { hostedTools: prices } = price;
  if (!facts.hostedTools || !prices) return none;
  const byTool = new Map<HostedTool, { most: number; least: number }>();
  for (const { tool, param, maxCalls } of facts.hostedTools) {
    if (prices.perCall[tool] === undefined) continue;
    // A model that searches on the chat wire does so once for each answer, and reports no number.
    const isImplied = param === 'web_search_options' && provider?.wire !== 'google';
    const implied = isImplied ? Math.max(1, facts.answers) : 0;
    const before = byTool.get(tool) ?? { most: 0, least: 0 };
    const most = isImplied ? implied : (maxCalls ?? facts.maxHostedCalls ?? prices.maxCalls);
    byTool.set(tool, { most: before.most + most, least: before.least + implied });
  }
  const sum = [...byTool.values()].reduce((total, { most }) => total + most, 0);
  const limit = totalLimit(provider?.wire, facts, prices.maxCalls);
  const total = Math.min(sum, limit ?? sum);
  // The dearest calls first.
  const dearest = [...byTool]
    .map(([tool, { most }]) => ({ most, price: prices.perCall[tool] ?? 0n }))
    .sort((a, b) => Number(b.price - a.price));
  let [cost, left] = [0n, total];
  for (const { most, price: perCall } of dearest) {
    const calls = Math.min(most, left);
    cost += BigInt(calls) * perCall;
    left -= calls;
  }
  return { total, byTool, cost };
}

/** The limit that the provider has for all tools of a request; undefined where it has one for each tool, or none. */
const totalLimit = (
  wire: string | undefined,
  { maxHostedCalls }: CallFacts,
  maxCalls: number,
): number | undefined => (wire === 'openai-responses' ? (maxHostedCalls ?? maxCalls) : maxHostedCalls);

/** The limit to send to the provider: that of the rate card, where the request has none itself. */
export function callLimitFor({ price }: PricedModel, facts: CallFacts): number | undefined {
  if (!facts.hostedTools || !price.hostedTools || facts.maxHostedCalls !== undefined) return undefined;
  return price.hostedTools.maxCalls;
}

/** The calls to bill: as reported, but not more than the request was allowed. */
export function limitCalls(usage: Usage, { byTool, total }: CallBound): Usage {
  if (!usage.hostedCalls && byTool.size === 0) return usage;
  const calls: Partial<Record<HostedTool, number>> = {};
  let left = total;
  for (const [tool, { most, least }] of byTool) {
    const billed = Math.min(Math.max(usage.hostedCalls?.[tool] ?? 0, least), most, left);
    if (billed > 0) calls[tool] = billed;
    left -= billed;
  }
  const { hostedCalls: _, ...rest } = usage;
  return Object.keys(calls).length > 0 ? { ...rest, hostedCalls: calls } : rest;
}
