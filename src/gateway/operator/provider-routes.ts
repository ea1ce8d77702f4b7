import { HttpError } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { didYouMean } from '../../words/nearest.ts';
import type { Provider } from '../catalog/types.ts';
import type { Gateway } from '../open.ts';
import { adminPrefix, answers, refusal } from './admin-answers.ts';
import { listOf } from './admin-schemas.ts';
import {
  credentialSchema,
  providerSchema,
  providerSwitchBody,
  servedModelsOf,
  toCredentialBody,
  toProviderBody,
} from './provider-bodies.ts';

const notFound = { 404: refusal('The configuration has no such provider.') };
const params = { provider: 'Id of the provider.' };

/** Providers of the configuration: their health, their switches and where their keys come from. */
export function providerRoutes({ config, models, healthOf, disabled }: Gateway['admin']): Route[] {
  const facts = () => ({
    served: models().flatMap(servedModelsOf),
    healthOf,
    findDisabled: (provider: string, model?: string) => disabled.find(provider, model),
  });
  const findProvider = (id: string): Provider => {
    const { providers } = config();
    const found = providers.find((one) => one.id === id);
    if (found) return found;
    const ids = providers.map((one) => one.id);
    throw new HttpError(
      404,
      'unknown_provider',
      `The configuration has no provider '${id.slice(0, 100)}'${didYouMean(id, ids, (near) => `'${near}'`)}.`,
    );
  };
  return [
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/providers`,
      operationId: 'listProviders',
      summary: 'Providers and the health of their deployments',
      responses: answers(listOf(providerSchema, 'ProviderList')),
      handle() {
        const known = facts();
        return Response.json({ data: config().providers.map((one) => toProviderBody(one, known)) });
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/providers/{provider}`,
      operationId: 'getProvider',
      summary: 'A provider and the health of its deployments',
      params,
      responses: answers(providerSchema, notFound),
      handle: ({ params: { provider = '' } }) =>
        Response.json(toProviderBody(findProvider(provider), facts())),
    }),
    defineRoute({
      method: 'PATCH',
      path: `${adminPrefix}/providers/{provider}`,
      operationId: 'switchProvider',
      summary: 'Disable or enable a provider, or one model at it, on all gateways of the database',
      description:
        'In force at once on this gateway, and within 2 s on the others; it stays after a restart. Where other deployments or fallbacks of a model are left, these answer.',
      params,
      body: providerSwitchBody,
      responses: answers(providerSchema, notFound),
      async handle({ body, params: { provider = '' } }) {
        const found = findProvider(provider);
        const { model, note } = body;
        const violations = [];
        if (note !== undefined && !body.disabled)
          violations.push({ path: 'note', message: 'expected only with `disabled: true`' });
        const ids = [
          ...new Set(
            facts()
              .served.filter((one) => one.model.provider.id === provider)
              .map((one) => one.model.id),
          ),
        ];
        // A model that left the configuration can still be enabled.
        if (model !== undefined && !ids.includes(model) && !disabled.find(provider, model))
          violations.push({
            path: 'model',
            message: `expected a model of ${provider}: ${ids.join(', ') || 'it has none'}; got '${model.slice(0, 100)}'${didYouMean(model, ids, (near) => `'${near}'`)}`,
          });
        if (violations.length > 0) throw invalidBodyError(violations);
        await disabled.set({ provider, model, isDisabled: body.disabled, note });
        return Response.json(toProviderBody(found, facts()));
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/credentials`,
      operationId: 'listCredentials',
      summary: "Where the providers' keys come from, and which ones are in force; never the keys",
      description:
        'Keys come from the environment and files that the configuration names, and are not stored by the gateway: to change one, write its file, or the variable and restart. `POST /reload` reads the files at once.',
      responses: answers(listOf(credentialSchema, 'CredentialList')),
      handle() {
        const known = facts();
        return Response.json({ data: config().providers.map((one) => toCredentialBody(one, known)) });
      },
    }),
  ];
}
