import { tokenFile } from '../../api/session.ts';

/** Where the bearer token is: the path of its file for people on the host's machine. */
export function TokenFile() {
  const path = tokenFile();
  return path === undefined ? (
    <>
      the file <code>bearer.token</code> of the host's data directory
    </>
  ) : (
    <code>{path}</code>
  );
}
