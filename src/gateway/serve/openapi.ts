import { z } from 'zod';
import { type Operation, writeDocument } from '../../http/openapi.ts';
import type { DocumentedRoute } from '../../http/route.ts';
import type { Endpoint } from '../../http/router.ts';
import { openaiError } from '../../wires/core/error-schema.ts';
import type { Priced } from './told.ts';

/** A route, as the document tells of it. */
export interface GatewayOperation extends Omit<DocumentedRoute, 'answers'> {
  /** Anybody may ask. */
  readonly isOpen?: true;
  /** The body of the answer. */
  readonly answerBody: z.ZodType;
  /** Of the answer. Default: JSON. */
  readonly mediaType?: 'text/html';
  /** Why it is refused, beside what all such routes may be refused for. */
  readonly refusals?: Operation['refusals'];
  /** It costs money, and is told to who watches. */
  readonly priced?: Priced;
}

const securitySchemes = {
  bearer: { type: 'http', scheme: 'bearer' },
  xApiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
  apiKey: { type: 'apiKey', in: 'header', name: 'api-key' },
};

const headers = {
  'x-svc-request-id': 'The id of the request; request-id and x-request-id say the same.',
  'x-svc-requested-model': 'As it was asked for.',
  'x-svc-effective-model': 'What answered and was billed.',
  'x-svc-endpoint': "credits, or byok:PROVIDER where the caller's own credential served.",
  'x-svc-receipt-reason': 'as_requested, routed or provider_failover.',
  'x-svc-cost-nanousd': z.int().min(0).describe('What it cost, in nanodollars; absent on a stream.'),
  'x-svc-cost-components-nanousd': 'fresh=,cache_write=,cache_read=,output=, which add up to the cost.',
  'x-svc-pricing-identity': 'sha256: of the rate card.',
};

const pricedRefusals: Operation['refusals'] = {
  400: 'invalid_request_error; also context_length_exceeded and unsupported_parameter.',
  402: 'insufficient_allowance, cost_ceiling_exceeded or key_spend_cap_exceeded: nothing is charged.',
  404: 'model_not_found',
  409: 'request_in_progress or idempotency_conflict',
  422: 'upstream_error: the provider reports that the prompt is too long.',
  429: 'rate_limit_exceeded, with Retry-After: 1.',
  502: 'upstream_failed or provider_quota_exhausted: nothing is charged.',
  503: 'upstream_unavailable, with Retry-After: most requests to the model fail at present; or the database is away. Nothing is charged.',
  504: 'upstream_timeout: nothing is charged.',
};

const pricedHeaders = {
  'x-svc-max-cost-nanousd': z
    .int()
    .min(0)
    .describe('A ceiling: 402 before the model runs where it could cost more.'),
  'x-svc-fallback-models': 'At most three ids, separated by commas, that may stand in.',
  'idempotency-key': z.string().max(255).describe('The same key and body get the first answer again.'),
};

const eventStream = z.string().meta({ id: 'EventStream' });

/** @throws Error where a route is not described */
export function openapiDocument(routes: readonly (Endpoint & Partial<GatewayOperation>)[], basePath: string) {
  const head = {
    info: { title: 'lathe gateway', version: '1', description: 'One key before many providers.' },
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
        ...(priced ? { headers: pricedHeaders } : {}),
        security: isOpen ? [] : Object.keys(securitySchemes),
        errorSchema: openaiError,
        refusals: {
          ...(isOpen ? {} : { 401: 'invalid_api_key' }),
          ...(priced ? pricedRefusals : {}),
          ...route.refusals,
        },
        answers: { 200: { description: summary, content } },
      };
    }),
  );
}
