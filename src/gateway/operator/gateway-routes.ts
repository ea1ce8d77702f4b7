import { HttpError, type Violation } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { strictObject } from '../../http/schema/strict.ts';
import type { Gateway } from '../open.ts';
import { adminPrefix, answers, refusal } from './admin-answers.ts';
import { reloadSchema, statusSchema } from './admin-schemas.ts';
import { adminModelListSchema, toAdminModelBody } from './provider-bodies.ts';

/** The gateway itself: its state, its configuration and its catalog. */
export function gatewayRoutes({
  state,
  reload,
  admin,
}: Pick<Gateway, 'admin' | 'reload' | 'state'>): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/status`,
      operationId: 'getStatus',
      summary: 'Requests in flight, breakers and the version of the configuration',
      responses: answers(statusSchema),
      handle() {
        const { requestsInFlight, openHolds, config, breakers } = state();
        return Response.json({
          requests_in_flight: requestsInFlight,
          open_holds: openHolds,
          config: config
            ? { version: config.version, is_newest: config.isNewest, refused: config.refused ?? null }
            : null,
          breakers: breakers.map(({ isOpen, ...names }) => ({ ...names, open: isOpen })),
        });
      },
    }),
    defineRoute({
      method: 'POST',
      path: `${adminPrefix}/reload`,
      operationId: 'reloadConfig',
      summary: 'Read the configuration again and replace it, whole or not at all',
      isBodyOptional: true,
      body: strictObject({}).meta({ id: 'ReloadRequest' }),
      responses: answers(reloadSchema, {
        409: refusal('It cannot be used, for all reasons in `violations`.'),
      }),
      async handle() {
        const result = await reload?.();
        if (!result)
          throw new HttpError(409, 'not_reloadable', 'The configuration of this gateway has no file.');
        if (result.outcome !== 'refused') return Response.json(result);
        const violations: Violation[] = result.faults.map((message) => ({ path: '', message }));
        throw new HttpError(
          409,
          'config_refused',
          `The configuration stays, because the new one cannot be used: ${result.faults.join('; ')}`,
          { violations },
        );
      },
    }),
    defineRoute({
      method: 'GET',
      path: `${adminPrefix}/models`,
      operationId: 'listModels',
      summary: 'The catalog with its prices and deployments',
      responses: answers(adminModelListSchema),
      handle: () =>
        Response.json({
          aliases: Object.fromEntries(admin.config().aliases),
          data: admin
            .models()
            .map((model) => toAdminModelBody(model, (provider, id) => admin.disabled.has(provider, id))),
        }),
    }),
  ];
}
