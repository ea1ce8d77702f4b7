import { listHarnesses, listOpenSessions, listRecentTurns } from '../../agent/sessions/served-sessions.ts';
import type { Store } from '../../store/index.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { servedCapabilities, servedHarnesses, servedSessions } from './schema.ts';

/** Network settings of the host. */
export interface HostReachability {
  readonly bind: 'loopback' | 'lan';
  /** Port of the control socket once it is open; 0 where there is none. */
  readonly controlPort: () => number;
  /** Whether the operator has a credential. */
  readonly operatorCredential: boolean;
}

/** Actions on sessions; each is a route of the agent plane. */
const verbs = ['cancel', 'pause', 'resume', 'run-now', 'revoke'];

interface ServedOptions {
  readonly store: Store;
  readonly resident: Resident;
  readonly reachability: HostReachability;
  /** False: cancelled runs are shown as failed. */
  readonly cancelledState: boolean;
}

/** Routes for remote users of the host. */
export function servedRoutes({ store, resident, reachability, cancelledState }: ServedOptions): Route[] {
  const getSessions = defineRoute({
    method: 'GET',
    path: '/host/v1/sessions',
    operationId: 'getHostSessions',
    summary: 'List open store sessions and the turns of the last ten minutes',
    gate: 'bearer',
    responses: {
      200: { description: 'Sessions and turns.', content: { 'application/json': servedSessions } },
    },
    async handle() {
      const [sessions, turns] = [
        await listOpenSessions(store),
        await listRecentTurns(store, { cancelledState }),
      ];
      return Response.json({ contract: 1, endpoint_id: store.endpointId, sessions, turns });
    },
  });
  const getServed = defineRoute({
    method: 'GET',
    path: '/host/v1/served',
    operationId: 'getHostServed',
    summary: 'Get the capability descriptor of the host',
    gate: 'bearer',
    responses: {
      200: { description: 'The descriptor.', content: { 'application/json': servedCapabilities } },
    },
    handle() {
      return Response.json({
        contract: 1,
        endpoint_id: store.endpointId,
        sessions_plane: true,
        verbs,
        bind: reachability.bind,
        control_port: reachability.controlPort(),
        operator_credential: reachability.operatorCredential,
        offering: {
          models: resident.models.map(({ engine: { model } }) => ({ id: model.id, kind: model.kind })),
        },
      });
    },
  });
  const getHarnesses = defineRoute({
    method: 'GET',
    path: '/host/v1/harnesses',
    operationId: 'getHostHarnesses',
    summary: 'List the harnesses that run here or registered sessions',
    gate: 'bearer',
    responses: {
      200: { description: 'The registry.', content: { 'application/json': servedHarnesses } },
    },
    async handle() {
      return Response.json({ contract: 1, harnesses: await listHarnesses(store) });
    },
  });
  return [getSessions, getServed, getHarnesses];
}
