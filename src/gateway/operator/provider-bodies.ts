/** JSON of providers, their deployments and their credentials. */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { expected } from '../../http/schema/expected.ts';
import { strictObject } from '../../http/schema/strict.ts';
import { catalogModelSchema, toModelBody } from '../catalog/bodies.ts';
import { type Deployment, type Model, type Provider, routingStrategies } from '../catalog/types.ts';
import type { DeploymentHealth } from '../upstream/deployment-state.ts';
import type { DisabledDeployment } from '../upstream/disabled-deployments.ts';

const time = z.string().describe('RFC 3339, in UTC.');

const disabledSchema = z
  .object({
    at: time,
    by: z.string().describe('As `actor` in the log of changes.'),
    note: z.string().nullable(),
  })
  .nullable()
  .describe('Set while it is disabled.');

const limits = {
  requests_per_minute: z.int().nullable().describe('Of all callers, in each gateway; null: no limit.'),
  concurrency: z.int().nullable(),
};

const deploymentSchema = z
  .object({
    model: z.string(),
    upstream: z.string().describe("The provider's name of the model."),
    disabled: disabledSchema,
    ...limits,
    breaker_open: z.boolean(),
    cooldown_ms: z.int().describe('How long it is asked last after a failure; 0: it is available.'),
    requests_in_flight: z.int(),
    last_request_at: time.nullable(),
    last_error: z
      .object({ status: z.int(), code: z.string(), at: time })
      .nullable()
      .describe('The last failure of the deployment, as its caller would get it.'),
  })
  .meta({ id: 'Deployment' });

export const providerSchema = z
  .object({
    id: z.string(),
    wire: z.string(),
    base_urls: z.array(z.string()),
    access: z.enum(['house', 'byok']).describe("`byok`: with callers' own keys only."),
    disabled: disabledSchema,
    deployments: z
      .array(deploymentSchema)
      .describe(
        'Health as this gateway sees it since its start, for requests with the key of the operator; other gateways may see another.',
      ),
  })
  .meta({ id: 'Provider' });

export const providerSwitchBody = strictObject({
  disabled: z
    .boolean({ error: expected('true or false') })
    .describe('true: no new requests are sent, until it is enabled; those under way end.'),
  model: z
    .string({ error: expected('a text') })
    .min(1, 'must not be empty')
    .optional()
    .describe('Id of a model: only its deployments at this provider. Default: all of the provider.'),
  note: z
    .string({ error: expected('a text') })
    .min(1, 'must not be empty')
    .max(500, 'must have at most 500 characters')
    .optional()
    .describe('Why it is disabled.'),
}).meta({ id: 'ProviderSwitch' });

export const credentialSchema = z
  .object({
    provider: z.string(),
    source: z.enum(['env', 'file']).nullable().describe('null: the provider has no key.'),
    name: z
      .string()
      .nullable()
      .describe('The environment variable, or the file as the configuration names it.'),
    fingerprint: z
      .string()
      .nullable()
      .describe('The first 8 hex digits of the SHA-256 of the key, to see which one is in force.'),
    last_used_at: time.nullable().describe('By this gateway since its start.'),
  })
  .meta({ id: 'ProviderCredential' });

const { pricing } = catalogModelSchema.shape;
const adminModelSchema = catalogModelSchema
  .extend({
    routing: z
      .object({ strategy: z.enum(routingStrategies), sticky: z.boolean() })
      .nullable()
      .describe('null: one provider.'),
    deployments: z.array(
      z.object({
        provider: z.string(),
        upstream: z.string(),
        weight: z.number().nullable().describe('Like `priority`, null where the model has one provider.'),
        priority: z.number().nullable(),
        ...limits,
        disabled: z.boolean(),
        pricing,
      }),
    ),
  })
  .meta({ id: 'AdminModel' });

export const adminModelListSchema = z
  .object({
    data: z.array(adminModelSchema),
    aliases: z
      .record(z.string(), z.string())
      .describe('Alias names, and the ids of the models that they stand for.'),
  })
  .meta({ id: 'AdminModelList' });

const toDisabledBody = (disabled: DisabledDeployment | undefined): z.infer<typeof disabledSchema> =>
  disabled ? { at: disabled.at, by: disabled.by, note: disabled.note ?? null } : null;

/** A model as one provider serves it, with the settings of its deployment if it has several. */
export interface ServedModel {
  readonly model: Model;
  readonly deployment: Deployment | undefined;
}

export const servedModelsOf = (model: Model): ServedModel[] =>
  model.routing?.deployments.map((deployment) => ({ model: deployment.model, deployment })) ?? [
    { model, deployment: undefined },
  ];

/** What is known about a provider now. */
export interface ProviderFacts {
  readonly served: readonly ServedModel[];
  readonly healthOf: (model: Model) => DeploymentHealth | undefined;
  readonly findDisabled: (provider: string, model?: string) => DisabledDeployment | undefined;
}

export const toProviderBody = (
  { id, wire, baseUrls, access }: Provider,
  { served, healthOf, findDisabled }: ProviderFacts,
): z.infer<typeof providerSchema> => ({
  id,
  wire,
  base_urls: [...baseUrls],
  access,
  disabled: toDisabledBody(findDisabled(id)),
  deployments: served
    .filter(({ model }) => model.provider.id === id)
    .map(({ model, deployment }) => {
      const health = healthOf(model);
      return {
        model: model.id,
        upstream: model.upstream,
        disabled: toDisabledBody(findDisabled(id, model.id)),
        requests_per_minute: deployment?.requestsPerMinute ?? null,
        concurrency: deployment?.concurrency ?? null,
        breaker_open: health?.isBreakerOpen ?? false,
        cooldown_ms: health?.cooldownMs ?? 0,
        requests_in_flight: health?.inFlight ?? 0,
        last_request_at: health?.lastRequestAt ?? null,
        last_error: health?.lastError ?? null,
      };
    }),
});

export const toCredentialBody = (
  { id, apiKey, apiKeySource }: Provider,
  { served, healthOf }: Pick<ProviderFacts, 'served' | 'healthOf'>,
): z.infer<typeof credentialSchema> => {
  const times = served
    .filter(({ model }) => model.provider.id === id)
    .flatMap(({ model }) => healthOf(model)?.lastRequestAt ?? []);
  return {
    provider: id,
    source: apiKeySource?.kind ?? null,
    name: apiKeySource?.name ?? null,
    fingerprint: apiKey === undefined ? null : hash('sha256', apiKey).slice(0, 8),
    last_used_at: apiKey === undefined ? null : (times.toSorted().at(-1) ?? null),
  };
};

export const toAdminModelBody = (
  model: Model,
  isDisabled: (provider: string, model: string) => boolean,
): z.infer<typeof adminModelSchema> => ({
  ...toModelBody(model),
  routing: model.routing ? { strategy: model.routing.strategy, sticky: model.routing.sticky } : null,
  deployments: servedModelsOf(model).map(({ model: one, deployment }) => ({
    provider: one.provider.id,
    upstream: one.upstream,
    weight: deployment?.weight ?? null,
    priority: deployment?.priority ?? null,
    requests_per_minute: deployment?.requestsPerMinute ?? null,
    concurrency: deployment?.concurrency ?? null,
    disabled: isDisabled(one.provider.id, one.id),
    pricing: one.pricing,
  })),
});
