import { isDeepStrictEqual } from 'node:util';
import { summarizeList } from '../../util/summarize-list.ts';
import type { Model } from '../catalog/types.ts';
import type { GatewayConfig } from './types.ts';

/** Says in a line what a new configuration changes, such as `models: changed chat, new small; limits`. */
export function describeChanges(before: GatewayConfig, after: GatewayConfig): string {
  const lists = [
    describeList('providers', byId(before.providers), byId(after.providers)),
    describeList('models', modelsOf(before), modelsOf(after)),
    describeList('aliases', before.aliases, after.aliases),
    describeList('fallbacks', before.fallbacks, after.fallbacks),
    describeList('byok', byId(before.byok), byId(after.byok)),
    isDeepStrictEqual(before.limits, after.limits) ? '' : 'limits',
    before.messagesForEveryModel === after.messagesForEveryModel ? '' : 'gateway',
    isDeepStrictEqual(before.cache, after.cache) ? '' : 'cache',
    isDeepStrictEqual(before.hooks ?? [], after.hooks ?? []) ? '' : 'hooks',
  ];
  return lists.filter((text) => text !== '').join('; ');
}

const byId = <T extends { readonly id: string }>(list: readonly T[]) =>
  new Map(list.map((one) => [one.id, one]));

/** A changed provider does not count as a change of its models. */
const modelsOf = ({ models }: GatewayConfig) =>
  byId(
    models.map(({ routing, ...model }) => ({
      ...withProviderId(model),
      ...routing,
      deployments: routing?.deployments.map((one) => ({ ...one, model: withProviderId(one.model) })),
    })),
  );

const withProviderId = (model: Model) => ({ ...model, provider: model.provider.id });

function describeList(
  name: string,
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
): string {
  const kinds = [
    ['new', [...after.keys()].filter((id) => !before.has(id))],
    ['removed', [...before.keys()].filter((id) => !after.has(id))],
    [
      'changed',
      [...after.keys()].filter((id) => before.has(id) && !isDeepStrictEqual(before.get(id), after.get(id))),
    ],
  ] as const;
  const parts = kinds.flatMap(([kind, ids]) => (ids.length > 0 ? [`${kind} ${summarizeList(ids)}`] : []));
  return parts.length === 0 ? '' : `${name}: ${parts.join(', ')}`;
}
