import type { GatewayRoute } from './routes.ts';

/** JSON Schema. */
type Schema = Readonly<Record<string, unknown>>;

interface Described {
  readonly summary: string;
  /** Whether anybody may ask. */
  readonly open?: boolean;
  readonly body?: Schema;
  readonly answer: Schema;
  /** Media type of the answer. Default: JSON. */
  readonly mediaType?: string;
  /** Of a completion: it may also be a stream, and may be refused for money. */
  readonly sold?: boolean;
  /** Statuses beside those that every route has. */
  readonly errors?: Readonly<Record<number, string>>;
}

const text = { type: 'string' };
const whole = { type: 'integer', minimum: 0 };
/** Members that the gateway reads; providers' others pass on where both sides speak the same wire. */
const object = (properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema => ({
  type: 'object',
  properties,
  ...(required.length > 0 ? { required } : {}),
});
const list = (items: Schema): Schema => ({ type: 'array', items });
const either = (...anyOf: readonly Schema[]): Schema => ({ anyOf });

const effort = { enum: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] };
const stream = { type: 'boolean', default: false };
const usageAsked = object({ include_usage: { type: 'boolean' } });
const model = {
  type: 'string',
  description: 'An id of GET /v1/models, an alias, PROVIDER/ID, a deployment, or KIND:SLUG/MODEL.',
};
const openAis = (what: string): Schema => ({ type: 'object', description: `As OpenAI's ${what}.` });

const catalogModel = object(
  {
    id: text,
    object: { const: 'model' },
    display_name: text,
    provider: text,
    caps: list(text),
    context_window: whole,
    max_output_tokens: whole,
    embedding_dimensions: whole,
    pricing: object({
      in_usd_per_mtok: text,
      out_usd_per_mtok: text,
      cache_read_usd_per_mtok: text,
      cache_write_usd_per_mtok: text,
    }),
  },
  ['id', 'caps', 'context_window', 'pricing'],
);
const catalogList = object({ object: { const: 'list' }, data: list(catalogModel) }, ['object', 'data']);
const credential = object(
  { provider: text, status: { enum: ['active', 'rejected'] }, last4: text, base_url: text, created_at: text },
  ['provider', 'status', 'last4', 'created_at'],
);

const described: Readonly<Record<string, Described>> = {
  'POST /v1/chat/completions': {
    summary: "A completion on OpenAI's chat wire, of every model of the catalog",
    sold: true,
    body: object(
      {
        model,
        messages: list({ type: 'object' }),
        max_tokens: { ...whole, default: 4096 },
        max_completion_tokens: whole,
        stream,
        stream_options: usageAsked,
        tools: list({ type: 'object' }),
        reasoning: object({ effort, max_tokens: whole }),
        reasoning_effort: effort,
        response_format: { type: 'object' },
      },
      ['model', 'messages'],
    ),
    answer: openAis('chat completion'),
  },
  'POST /v1/responses': {
    summary: "A response on OpenAI's responses wire, stateless, of every model of the catalog",
    sold: true,
    body: object(
      {
        model,
        input: either(text, list({ type: 'object' })),
        instructions: text,
        max_output_tokens: whole,
        stream,
        stream_options: usageAsked,
        tools: list({ type: 'object' }),
        reasoning: object({ effort }),
        text: { type: 'object' },
      },
      ['model', 'input'],
    ),
    answer: openAis('response'),
  },
  'POST /v1/messages': {
    summary: "A message on Anthropic's wire, of the models of that family",
    sold: true,
    body: object(
      {
        model,
        max_tokens: { ...whole, minimum: 1 },
        messages: list({ type: 'object' }),
        system: either(text, list({ type: 'object' })),
        stream,
        tools: list({ type: 'object' }),
        thinking: { type: 'object' },
      },
      ['model', 'max_tokens', 'messages'],
    ),
    answer: {
      type: 'object',
      description: "As Anthropic's message. A stream has an event svc_receipt after message_stop.",
    },
  },
  'POST /v1/completions': {
    summary: "A completion of a text, OpenAI's older wire",
    sold: true,
    body: object(
      { model, prompt: either(text, list(text), list(whole)), max_tokens: { ...whole, default: 16 }, stream },
      ['model', 'prompt'],
    ),
    answer: openAis('text completion'),
  },
  'POST /v1/embeddings': {
    summary: 'Texts as vectors, of models with the capability embeddings',
    sold: true,
    body: object(
      {
        model,
        input: either(text, list(text), list(whole)),
        encoding_format: { enum: ['float', 'base64'] },
        dimensions: { ...whole, minimum: 1 },
      },
      ['model', 'input'],
    ),
    answer: openAis('list of embeddings'),
  },
  'GET /v1/catalog': { summary: 'Every model and its prices', open: true, answer: catalogList },
  'GET /v1/models': { summary: 'The models that this key may use', answer: catalogList },
  'GET /v1/models/{id}': { summary: 'One of them', answer: catalogModel, errors: { 404: 'model_not_found' } },
  'GET /v1/balance': {
    summary: 'What the account has left, in nanodollars',
    answer: object({
      remaining_nanodollars: { type: 'integer' },
      included_nanodollars: whole,
      allowance_remaining_nanodollars: whole,
      credits_remaining_nanodollars: { type: 'integer' },
    }),
  },
  'GET /v1/keys': {
    summary: "The account's own credentials of providers, without the secrets",
    answer: object({ data: list(credential) }, ['data']),
  },
  'PUT /v1/keys/{provider}': {
    summary: 'Stores one, sealed, after the provider took it',
    body: object({ api_key: text, base_url: text }, ['api_key']),
    answer: credential,
    errors: { 404: 'provider_not_found', 422: 'The provider rejects it; nothing is stored.' },
  },
  'DELETE /v1/keys/{provider}': {
    summary: 'Removes one',
    answer: object({ provider: text, deleted: { const: true } }),
    errors: { 404: 'credential_not_found' },
  },
  'GET /health': { summary: 'Whether it lives', open: true, answer: object({ status: { const: 'ok' } }) },
  'GET /ready': {
    summary: 'Whether it can serve, and keep the money of it',
    open: true,
    answer: object({ status: { const: 'ready' } }),
    errors: { 503: 'The database is away.' },
  },
  'GET /openapi.json': { summary: 'This document', open: true, answer: { type: 'object' } },
  'GET /docs': { summary: 'This document, for reading', open: true, answer: text, mediaType: 'text/html' },
};

const header = (description: string, schema: Schema = text) => ({ description, schema });
const receipt = {
  'x-svc-request-id': header('The id of the request; request-id and x-request-id say the same.'),
  'x-svc-requested-model': header('As it was asked for.'),
  'x-svc-effective-model': header('What answered and was billed.'),
  'x-svc-endpoint': header("credits, or byok:PROVIDER where the caller's own credential served."),
  'x-svc-receipt-reason': header('as_requested, routed or provider_failover.'),
  'x-svc-cost-nanousd': header('What it cost, in nanodollars; absent on a stream.', whole),
  'x-svc-cost-components-nanousd': header(
    'fresh=,cache_write=,cache_read=,output=, which add up to the cost.',
  ),
  'x-svc-pricing-identity': header('sha256: of the rate card.'),
};

const soldErrors: Readonly<Record<number, string>> = {
  400: 'invalid_request_error; also context_length_exceeded and unsupported_parameter.',
  402: 'insufficient_allowance, cost_ceiling_exceeded or key_spend_cap_exceeded: nothing is charged.',
  404: 'model_not_found',
  409: 'request_in_progress or idempotency_conflict',
  413: 'body_too_large',
  415: 'unsupported_media_type',
  422: 'upstream_error: the provider reports that the prompt is too long.',
  429: 'rate_limit_exceeded, with Retry-After: 1.',
  502: 'upstream_failed or provider_quota_exhausted: nothing is charged.',
  503: 'upstream_unavailable, with Retry-After: most requests to the model fail at present; or the database is away. Nothing is charged.',
  504: 'upstream_timeout: nothing is charged.',
};

const soldHeaders = [
  ['x-svc-max-cost-nanousd', 'A ceiling: 402 before the model runs where it could cost more.', whole],
  ['x-svc-fallback-models', 'At most three ids, separated by commas, that may stand in.', text],
  ['idempotency-key', 'The same key and body get the first answer again.', { ...text, maxLength: 255 }],
] as const;

/** Describes the routes, in OpenAPI 3.1. @throws Error where one of them is not described here */
export function openapiDocument(routes: readonly Pick<GatewayRoute, 'method' | 'path'>[], basePath: string) {
  const paths: Record<string, Record<string, object>> = {};
  for (const { method, path } of routes) {
    const about = described[`${method} ${path}`];
    if (!about) throw new Error(`${method} ${path} is not described`);
    (paths[basePath + path] ??= {})[method.toLowerCase()] = operation(about, path);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'lathe gateway', version: '1' },
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        xApiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
        apiKey: { type: 'apiKey', in: 'header', name: 'api-key' },
      },
      schemas: {
        Error: object(
          {
            error: object(
              {
                message: text,
                type: text,
                param: { type: ['string', 'null'] },
                code: { type: ['string', 'null'] },
              },
              ['message', 'type', 'param', 'code'],
            ),
          },
          ['error'],
        ),
      },
    },
  };
}

function operation(
  { summary, open, body, answer, mediaType = 'application/json', sold, errors }: Described,
  path: string,
): object {
  const json = (schema: Schema) => ({ 'application/json': { schema } });
  const failures = { ...(open ? {} : { 401: 'invalid_api_key' }), ...(sold ? soldErrors : {}), ...errors };
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: text,
    })),
    ...(sold
      ? soldHeaders.map(([name, description, schema]) => ({ name, in: 'header', description, schema }))
      : []),
  ];
  return {
    summary,
    ...(open ? {} : { security: [{ bearer: [] }, { xApiKey: [] }, { apiKey: [] }] }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: { required: true, content: json(body) } } : {}),
    responses: {
      200: {
        description: summary,
        headers: receipt,
        content: {
          [mediaType]: { schema: answer },
          ...(sold ? { 'text/event-stream': { schema: text } } : {}),
        },
      },
      ...Object.fromEntries(
        Object.entries(failures).map(([status, description]) => [
          status,
          { description, headers: receipt, content: json({ $ref: '#/components/schemas/Error' }) },
        ]),
      ),
    },
  };
}
