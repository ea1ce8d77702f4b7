import { z } from 'zod';
import { type Operation, writeDocument } from '../../http/openapi.ts';
import type { DocumentedRoute } from '../../http/route.ts';
import type { Endpoint } from '../../http/router.ts';
import { openaiError } from '../../wires/core/error-schema.ts';
import type { PricedOperation } from './span.ts';

/** A gateway route, as the OpenAPI document describes it. */
export interface GatewayOperation extends Omit<DocumentedRoute, 'responses'> {
  /** The route needs no API key. */
  readonly isOpen?: true;
  /** Response body. */
  readonly answerBody: z.ZodType;
  /** Media type of the response. Default: JSON. */
  readonly mediaType?: 'text/html';
  /** Errors of this route, in addition to those of all routes of its kind. */
  readonly refusals?: Operation['refusals'];
  /** Set on routes that cost money: how their spans are labeled. */
  readonly priced?: PricedOperation;
}

const securitySchemes = {
  bearer: { type: 'http', scheme: 'bearer' },
  xApiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
  apiKey: { type: 'apiKey', in: 'header', name: 'api-key' },
};

const headers = {
  'x-svc-request-id': 'The request id; request-id and x-request-id have the same value.',
  'x-svc-requested-model': 'The requested model id.',
  'x-svc-effective-model': 'The model that answered and was billed.',
  'x-svc-provider': 'The provider that answered.',
  'x-svc-endpoint': "credits, or byok:PROVIDER when the caller's own credential was used.",
  'x-svc-receipt-reason': 'as_requested, routed, provider_failover, or cached: a stored answer.',
  'x-svc-cost-nanousd': z.int().min(0).describe('Settled cost in nanodollars; absent on a stream.'),
  'x-svc-cost-components-nanousd':
    'fresh=,cache_write=,cache_read=,output=, and where they are not 0 tools= and hedge=, which add up to the cost.',
  'x-svc-service-tier': 'The tier that was charged, where it is not the default one; absent on a stream.',
  'x-svc-pricing-identity': 'Hash of the rate card, as sha256:HEX.',
};

const pricedRefusals: Operation['refusals'] = {
  400: "invalid_request_error; also context_length_exceeded, unsupported_parameter, and blocked_by_hook with the hook's name in `error.hook`: a blocked request is free, a blocked answer is charged.",
  402: 'insufficient_allowance, cost_ceiling_exceeded or key_spend_cap_exceeded: nothing is charged. If a budget does not cover the request, `error.budget` names it, its amount, what is spent and held, and when it resets.',
  404: 'model_not_found',
  409: 'request_in_progress or idempotency_conflict',
  422: 'upstream_error: the provider reports that the prompt is too long.',
  429: 'rate_limit_exceeded, with Retry-After: 1.',
  502: 'upstream_failed or provider_quota_exhausted: nothing is charged.',
  503: 'upstream_unavailable, with Retry-After: most requests to the model currently fail; or the database is unavailable. Nothing is charged. hook_failed: a hook that must check the request or the answer failed; the receipt has the cost.',
  504: 'upstream_timeout: nothing is charged.',
};

const pricedHeaders = {
  'x-svc-max-cost-nanousd': z
    .int()
    .min(0)
    .describe('Cost ceiling in nanodollars: a request that could cost more gets 402 before the model runs.'),
  'x-svc-hedge':
    'Time such as 300ms, after which a second deployment is asked if no answer began. The first answer is used. Only for models that allow it.',
  'x-svc-tag':
    'Tag in usage reports, in place of the end user that the body names. At most 128 characters are kept.',
  'x-svc-fallback-models': 'Up to three fallback model ids, separated by commas.',
  'x-svc-cache': z
    .enum(['on', 'off', 'refresh'])
    .describe(
      'on: answer from the cache of the model, where the operator set one up; refresh: ask a provider and store its answer; off: neither.',
    ),
  'idempotency-key': z
    .string()
    .max(255)
    .describe('A retry with the same key and body gets the first answer.'),
};

const streamHeaders = {
  'x-svc-stream-receipt': z
    .literal('comment')
    .describe(
      'Ends a stream with a comment that has its cost: `: receipt {"cost_nanousd": ...}`. Not on /v1/messages, whose streams have an event.',
    ),
};

const eventStream = z.string().meta({ id: 'EventStream' });

/** @throws Error when a route has no description */
export function openapiDocument(routes: readonly (Endpoint & Partial<GatewayOperation>)[], basePath: string) {
  const head = {
    info: { title: 'lathe gateway', version: '1', description: 'One API key for many providers.' },
    securitySchemes,
    headers,
  };
  return writeDocument(
    head,
    routes.map((route): Operation => {
      const { path, isOpen, summary, answerBody, mediaType = 'application/json', priced } = route;
      if (!summary || !answerBody) throw new Error(`${route.method} ${path} is not described`);
      const streams = priced && priced.operation !== 'embeddings';
      const content = { [mediaType]: answerBody, ...(streams ? { 'text/event-stream': eventStream } : {}) };
      return {
        ...route,
        path: basePath + path,
        summary,
        ...(priced ? { headers: streams ? { ...pricedHeaders, ...streamHeaders } : pricedHeaders } : {}),
        security: isOpen ? [] : Object.keys(securitySchemes),
        errorSchema: openaiError,
        refusals: {
          ...(isOpen ? {} : { 401: 'invalid_api_key' }),
          ...(priced ? pricedRefusals : {}),
          ...route.refusals,
        },
        responses: { 200: { description: summary, content } },
      };
    }),
  );
}
