import type { AgentHost } from '../../agent/open.ts';
import type { Plane, Route } from '../../http/route.ts';
import { agentsRoutes } from './agents-routes.ts';
import { externalSessionsRoutes } from './external-sessions-routes.ts';
import { pendingRoutes } from './pending-routes.ts';
import { agentPlane } from './plane.ts';
import { runsRoutes } from './runs-routes.ts';
import { sessionsRoutes } from './sessions-routes.ts';
import { tasksRoutes } from './tasks-routes.ts';
import { toolRoutes } from './tools-routes.ts';
import { workflowRoutes } from './workflows-routes.ts';

export function agentPlaneOf(host: AgentHost): Plane {
  return agentPlane([
    ...tasksRoutes(host),
    ...pendingRoutes(host),
    ...toolRoutes(host.toolbox),
    ...agentsRoutes(host.agents),
    // Before the routes with a name in the same place.
    ...runsRoutes(host).map((route) => whenResumed(host, route)),
    ...workflowRoutes(host.ensembles),
    ...sessionsRoutes(host),
    ...externalSessionsRoutes(host.external),
  ]);
}

/** Nothing is run before what ran at the last end of the host was taken up, which waits for the model. */
function whenResumed(host: AgentHost, route: Route): Route {
  if (route.method !== 'POST') return route;
  return {
    ...route,
    async before(about) {
      host.requireResumed();
      await route.before?.(about);
    },
  };
}
