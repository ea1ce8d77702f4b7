import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../api/client.ts';

/**
 * Link to the page of the gateway's operator. Nothing where the host has no operator listener, or where this browser runs on
 * another machine: the listener is on loopback.
 */
export function GatewayLink() {
  const { data: port } = useQuery({
    queryKey: ['gateway', 'admin port'],
    queryFn: async () => (await unwrap(api.GET('/host/v1/info'))).gateway_admin_port ?? null,
    // The port does not change while the host runs.
    staleTime: Infinity,
  });
  if (typeof port !== 'number' || !['localhost', '127.0.0.1'].includes(location.hostname)) return null;
  return <a href={`http://${location.hostname}:${port}/`}>Gateway</a>;
}
