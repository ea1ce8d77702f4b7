import { z } from 'zod';
import { renderDocsPage } from '../../api-docs/page.ts';
import { htmlPage, openapi } from '../../api-docs/schema.ts';
import { credentialRequestSchema, storedCredentialSchema } from '../access/credential-body.ts';
import {
  balanceSchema,
  toBalanceBody,
  catalogListSchema,
  catalogModelSchema,
  toListBody,
  toModelBody,
} from '../catalog/bodies.ts';
import { WireError } from '../../wires/core/error.ts';
import { chatWire } from '../../wires/chat/client.ts';
import { chatBody } from '../../wires/chat/request-schema.ts';
import { completionsWire } from '../../wires/completions/client.ts';
import { completionsBody } from '../../wires/completions/facts.ts';
import { embeddingsBody } from '../../wires/embeddings/facts.ts';
import { messagesBody } from '../../wires/messages/body-schema.ts';
import { messagesWire } from '../../wires/messages/client.ts';
import { responsesBody } from '../../wires/responses/body-schema.ts';
import { responsesWire } from '../../wires/responses/client.ts';
import type { ClientWire } from '../../wires/core/wire.ts';
import { jsonAnswer } from './answers.ts';
import { type OutgoingResponse } from '../../http/deliver.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { answerCompletion } from './completion.ts';
import { answerEmbeddings } from './embedding.ts';
import { type GatewayOperation, openapiDocument } from './openapi.ts';
import type { GatewayServices } from './services.ts';
import { readJsonObject } from './request-body.ts';
import { usageRoutes } from './usage-routes.ts';

/** A gateway route. Its answer may reject with `WireError`, `StoreError` or `ClientGone`. */
export interface GatewayRoute extends GatewayOperation {
  readonly answer: (
    incoming: IncomingRequest,
    params: Readonly<Record<string, string>>,
  ) => Promise<OutgoingResponse>;
  readonly errorBody?: ClientWire['errorBody'];
}

/** @param basePath where the gateway is mounted */
export function gatewayRoutes(services: GatewayServices, basePath: string): GatewayRoute[] {
  const routes: GatewayRoute[] = [
    ...servedRoutes(services),
    {
      method: 'GET',
      path: '/openapi.json',
      summary: 'This document',
      isOpen: true,
      answerBody: openapi,
      answer: async ({ receipt }) => jsonAnswer(receipt, 200, JSON.stringify(document())),
    },
    {
      method: 'GET',
      path: '/docs',
      summary: 'This document as a page',
      isOpen: true,
      answerBody: htmlPage,
      mediaType: 'text/html',
      async answer({ receipt }) {
        const { html, headers } = renderDocsPage(document(), `${basePath}/openapi.json`);
        return jsonAnswer(receipt, 200, html, headers);
      },
    },
  ];
  let cache: ReturnType<typeof openapiDocument> | undefined;
  const document = () => (cache ??= openapiDocument(routes, basePath));
  return routes;
}

const status = z.object({ status: z.literal(['ok', 'ready']) }).meta({ id: 'Status' });

const servedRoutes = (services: GatewayServices): GatewayRoute[] => [
  ...completionRoutes(services),
  ...catalogRoutes(services),
  ...usageRoutes(services),
  ...keyRoutes(services),
  {
    method: 'GET',
    path: '/health',
    summary: 'Liveness',
    isOpen: true,
    answerBody: status,
    answer: async ({ receipt }) => jsonAnswer(receipt, 200, '{"status":"ok"}'),
  },
  {
    // For load balancers: fails while the database, which holds the ledger, is unavailable.
    method: 'GET',
    path: '/ready',
    summary: 'Readiness: whether requests can be served and charged',
    isOpen: true,
    answerBody: status,
    refusals: { 503: 'The database is unavailable.' },
    async answer({ receipt }) {
      await services.checkReady();
      return jsonAnswer(receipt, 200, '{"status":"ready"}');
    },
  },
];

/** A response schema whose members another API defines. */
const externalSchema = (id: string, what: string) =>
  z.looseObject({}).meta({ id, description: `Same shape as ${what}.` });

const completionRoutes = (services: GatewayServices): GatewayRoute[] => [
  ...(
    [
      {
        wire: chatWire,
        path: '/v1/chat/completions',
        summary: 'Chat completion, on the OpenAI chat completions wire; for every model of the catalog',
        body: chatBody,
        answerBody: externalSchema('ChatCompletion', "OpenAI's chat completion"),
      },
      {
        wire: messagesWire,
        path: '/v1/messages',
        summary:
          'Message, on the Anthropic messages wire; for models of that family, or for all where the operator says so',
        body: messagesBody,
        answerBody: externalSchema(
          'Message',
          "Anthropic's message; a stream has one more event, svc_receipt, after message_stop",
        ),
      },
      {
        wire: responsesWire,
        path: '/v1/responses',
        summary: 'Stateless response, on the OpenAI responses wire; for every model of the catalog',
        body: responsesBody,
        answerBody: externalSchema('Response', "OpenAI's response"),
      },
      {
        wire: completionsWire,
        path: '/v1/completions',
        summary: 'Text completion, on the OpenAI legacy completions wire',
        body: completionsBody,
        answerBody: externalSchema('Completion', "OpenAI's text completion"),
      },
    ] as const
  ).map(
    ({ wire, ...route }): GatewayRoute => ({
      method: 'POST',
      ...route,
      answer: (incoming) => answerCompletion(services, wire, incoming),
      errorBody: wire.errorBody,
      priced: { wire: wire.name, operation: wire.name === 'completions' ? 'text_completion' : 'chat' },
    }),
  ),
  {
    method: 'POST',
    path: '/v1/embeddings',
    summary: 'Embeddings; for models with the capability embeddings',
    body: embeddingsBody,
    answerBody: externalSchema('EmbeddingList', "OpenAI's list of embeddings"),
    answer: (incoming) => answerEmbeddings(services, incoming),
    priced: { wire: 'embeddings', operation: 'embeddings' },
  },
];

const catalogRoutes = ({ authenticator, catalog, ledger, credentials }: GatewayServices): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/catalog',
    summary: 'All models with their prices',
    isOpen: true,
    answerBody: catalogListSchema,
    answer: async ({ receipt }) => jsonAnswer(receipt, 200, JSON.stringify(toListBody(catalog.list()))),
  },
  {
    method: 'GET',
    path: '/v1/models',
    summary: 'The models that this key may use',
    answerBody: catalogListSchema,
    async answer({ receipt, header }) {
      const { key, accountId } = await authenticator.confirm(header);
      const models = await catalog.listFor(key.models, (provider) => credentials.find(accountId, provider));
      return jsonAnswer(receipt, 200, JSON.stringify(toListBody(models)));
    },
  },
  {
    method: 'GET',
    path: '/v1/models/{id}',
    summary: 'One model',
    params: { id: 'A model id from GET /v1/models; it may contain slashes.' },
    answerBody: catalogModelSchema,
    refusals: { 404: 'model_not_found' },
    async answer({ receipt, header }, { id = '' }) {
      const { key, accountId } = await authenticator.confirm(header);
      receipt.requestedModel = receipt.effectiveModel = id;
      const { model } = await catalog.resolve(id, {
        models: key.models,
        findCredential: (provider) => credentials.find(accountId, provider),
        fallbacks: [],
      });
      receipt.effectiveModel = model.id;
      return jsonAnswer(receipt, 200, JSON.stringify(toModelBody(model)));
    },
  },
  {
    method: 'GET',
    path: '/v1/balance',
    summary: 'The balance of the account, in nanodollars',
    answerBody: balanceSchema,
    async answer({ receipt, header }) {
      const { accountId } = await authenticator.confirm(header);
      return jsonAnswer(receipt, 200, JSON.stringify(toBalanceBody(await ledger.balance(accountId))));
    },
  },
];

/** Size limit of the body of PUT /v1/keys/{provider}. */
const maxCredentialBodyBytes = 64 * 1024;

const params = { provider: "The id of a provider that accepts callers' own credentials." };

const keyRoutes = ({ authenticator, credentials }: GatewayServices): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/keys',
    summary: "The account's own provider credentials, without the secrets",
    answerBody: z.object({ data: z.array(storedCredentialSchema) }).meta({ id: 'CredentialList' }),
    async answer({ receipt, header }) {
      const { accountId } = await authenticator.confirm(header);
      return jsonAnswer(receipt, 200, JSON.stringify({ data: await credentials.list(accountId) }));
    },
  },
  {
    method: 'PUT',
    path: '/v1/keys/{provider}',
    summary: 'Store a credential: it is verified with the provider, then encrypted',
    params,
    body: credentialRequestSchema,
    answerBody: storedCredentialSchema,
    refusals: { 404: 'provider_not_found', 422: 'The provider rejects it; nothing is stored.' },
    async answer(incoming, { provider = '' }) {
      const { accountId } = await authenticator.confirm(incoming.header);
      const { value } = await readJsonObject(incoming, maxCredentialBodyBytes);
      await credentials.put(accountId, provider, value);
      const stored = (await credentials.list(accountId)).find((one) => one.provider === provider);
      return jsonAnswer(incoming.receipt, 200, JSON.stringify(stored ?? {}));
    },
  },
  {
    method: 'DELETE',
    path: '/v1/keys/{provider}',
    summary: 'Remove a credential',
    params,
    answerBody: z
      .object({ provider: z.string(), deleted: z.literal(true) })
      .meta({ id: 'CredentialDeleted' }),
    refusals: { 404: 'credential_not_found' },
    async answer({ receipt, header }, { provider = '' }) {
      const { accountId } = await authenticator.confirm(header);
      if (!(await credentials.remove(accountId, provider)))
        throw new WireError(
          404,
          'invalid_request_error',
          `No credential of ${provider.slice(0, 100)} is stored; GET /v1/keys lists those that are.`,
          { code: 'credential_not_found', param: 'provider' },
        );
      return jsonAnswer(receipt, 200, JSON.stringify({ provider, deleted: true }));
    },
  },
];
