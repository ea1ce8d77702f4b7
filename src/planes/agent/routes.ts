import type { AgentHost } from '../../agent/open.ts';
import type { Plane } from '../route.ts';
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
    ...runsRoutes(host),
    ...workflowRoutes(host.ensembles),
    ...sessionsRoutes(host),
    ...externalSessionsRoutes(host.external),
  ]);
}
