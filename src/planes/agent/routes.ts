import type { AgentHost } from '../../agent/agent-host.ts';
import type { Plane, Route } from '../../http/route.ts';
import { agentsRoutes } from './agents-routes.ts';
import { eventsRoutes } from './events-routes.ts';
import { externalSessionsRoutes } from './external-sessions-routes.ts';
import { pendingRoutes } from './pending-routes.ts';
import { createAgentPlane } from './plane.ts';
import { runsRoutes } from './runs-routes.ts';
import { sessionsRoutes } from './sessions-routes.ts';
import { tasksRoutes } from './tasks-routes.ts';
import { toolRoutes } from './tools-routes.ts';
import { workflowRoutes } from './workflows-routes.ts';

export function createAgentPlaneOf(host: AgentHost): Plane {
  return createAgentPlane([
    ...tasksRoutes(host),
    ...pendingRoutes(host),
    ...toolRoutes(host.toolbox),
    ...agentsRoutes(host.agents),
    // Must precede the routes with a name parameter in the same position.
    ...runsRoutes(host).map((route) => whenResumed(host, route)),
    ...workflowRoutes(host.ensembles),
    ...sessionsRoutes(host),
    ...externalSessionsRoutes(host.external),
    ...eventsRoutes(host),
  ]);
}

/** Refuses to start work until the runs of the previous process were resumed, which requires the model. */
function whenResumed(host: AgentHost, route: Route): Route {
  if (route.method !== 'POST') return route;
  return {
    ...route,
    async beforeBody(request) {
      host.requireResumed();
      await route.beforeBody?.(request);
    },
  };
}
