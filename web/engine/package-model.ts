import url from '../../models/lathe-tiny-q8_0.gguf?url';

/** `lathe-web/model`: the URL of the embedded model (4 MB). A page that does not import it does not contain it. */
export const embeddedModel: string = url;
