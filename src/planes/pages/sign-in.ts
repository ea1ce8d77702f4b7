import { createHash } from 'node:crypto';

/**
 * Asks for the bearer token, sends it to `/console/door`, and then becomes the console, which keeps the token in
 * memory. A navigation cannot send the token, so this page needs no protected file.
 */
const script = `
const form = document.querySelector('form');
const alertLine = document.querySelector('[role=alert]');
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const token = form.elements.token.value.trim();
  alertLine.textContent = '';
  try {
    if (!/^[\\x21-\\x7e]+$/.test(token)) throw new Error('A token has no spaces and only ASCII.');
    const headers = { authorization: 'Bearer ' + token };
    const door = await fetch('/console/door', { method: 'POST', headers });
    if (door.status === 401) throw new Error('The token is wrong.');
    if (!door.ok) throw new Error('The host answered ' + door.status + '.');
    const file = await fetch('/console', { headers: { accept: 'text/html' } });
    if (!file.ok)
      throw new Error('The host did not receive its cookie. Allow cookies for this page.');
    if (location.pathname.startsWith('/demo')) return location.reload();
    const page = new DOMParser().parseFromString(await file.text(), 'text/html');
    Object.defineProperty(globalThis, Symbol.for('lathe.bearer'), { value: token, configurable: true });
    document.body.replaceChildren(Object.assign(document.createElement('div'), { id: 'root' }));
    for (const { href } of page.querySelectorAll('link[rel=stylesheet]'))
      document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href }));
    for (const { src } of page.querySelectorAll('script[src]')) await import(src);
  } catch (error) {
    alertLine.textContent = error instanceof TypeError ? 'The host does not answer.' : error.message;
  }
});
`;

const style = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; }
form { max-width: 26rem; margin: 12vh auto; padding: 0 1rem; display: grid; gap: .8rem; }
h1 { font-size: 1.3rem; margin: 0; } p { margin: 0; } label { font-weight: 600; }
input, button { font: inherit; padding: .5rem .7rem; width: 100%; box-sizing: border-box; }
[role=alert] { color: light-dark(#b42318, #fca5a5); min-height: 1.5em; }
`;

const hash = createHash('sha256').update(script).digest('base64');

/** Hash of the script, for `script-src`. */
export const signInScript = ` 'sha256-${hash}'`;

export const signInPage = (nonce: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<base href="/">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="csp-nonce" content="${nonce}">
<title>lathe: bearer token</title>
<link rel="icon" href="data:,">
<style nonce="${nonce}">${style}</style>
</head>
<body>
<main>
<form>
<h1>Sign in with the bearer token</h1>
<p id="about">It is in the file <code>bearer.token</code> of the host's data directory. The page keeps it in memory until it is closed or loaded again.</p>
<label for="token">Bearer token</label>
<input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required autofocus aria-describedby="about">
<button>Open</button>
<p role="alert"></p>
</form>
</main>
<script>${script}</script>
</body>
</html>
`;
