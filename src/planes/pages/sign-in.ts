import { createHash } from 'node:crypto';

/**
 * Asks for the bearer token, exchanges it for a session of the browser, and opens the page that was requested. A link on a page
 * of another site opens without the cookie of a session that there is: then this page opens its address again, once.
 */
const script = `
const form = document.querySelector('form');
const alertLine = document.querySelector('[role=alert]');
const open = () => location.replace(location.href);
const tried = 'lathe.opened-again';
if (sessionStorage.getItem(tried) !== location.href)
  fetch('/host/v1/session').then((answer) => {
    if (!answer.ok) return;
    sessionStorage.setItem(tried, location.href);
    open();
  }, () => undefined);
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const token = form.elements.token.value.trim();
  alertLine.textContent = '';
  try {
    if (!/^[\\x21-\\x7e]+$/.test(token)) throw new Error('A token has no spaces and only ASCII.');
    const headers = { authorization: 'Bearer ' + token };
    const answer = await fetch('/host/v1/session', { method: 'POST', headers });
    if (answer.status === 401) throw new Error('The token is wrong.');
    if (!answer.ok) throw new Error('The host answered ' + answer.status + '.');
    if (!(await fetch('/host/v1/session')).ok)
      throw new Error('The host did not receive its cookie. Allow cookies for this page.');
    sessionStorage.removeItem(tried);
    open();
  } catch (error) {
    alertLine.textContent = error instanceof TypeError ? 'The host does not answer.' : error.message;
  }
});
`;

const style = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; }
form { max-width: 26rem; margin: 12vh auto; padding: 0 1rem; display: grid; gap: .8rem; }
h1 { font-size: 1.3rem; margin: 0; } code { overflow-wrap: anywhere; } p { margin: 0; } label { font-weight: 600; }
input, button { font: inherit; padding: .5rem .7rem; width: 100%; box-sizing: border-box; }
[role=alert] { color: light-dark(#b42318, #fca5a5); min-height: 1.5em; }
`;

const hash = createHash('sha256').update(script).digest('base64');

/** Hash of the script, for `script-src`. */
export const signInScript = ` 'sha256-${hash}'`;

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);

/** @param tokenFile path of the file with the token, where the reader may know it */
export const signInPage = (nonce: string, tokenFile?: string): string => `<!doctype html>
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
<p id="about">It is in ${
  tokenFile === undefined
    ? "the file <code>bearer.token</code> of the host's data directory"
    : `<code>${escapeHtml(tokenFile)}</code>`
}. You stay signed in until you sign out, close the browser or do not use it for 12 hours.</p>
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
