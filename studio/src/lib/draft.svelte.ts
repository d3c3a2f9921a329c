/** The request that is being written: it survives a reload and a look at another page. */
import type { AssetKind } from "./types";

const KEY = "interleave-draft";

export interface GivenPicture {
  url: string;
  name: string;
}

/** A named thing that must stay the same. */
export interface GivenAsset {
  key: number;
  name: string;
  kind: AssetKind;
  description: string;
  picture: GivenPicture | null;
}

let keys = 0;

export function newAsset(): GivenAsset {
  return { key: ++keys, name: "", kind: "character", description: "", picture: null };
}

/** Whether anything was said about an asset; one that was only added is not sent. */
export function isSaid(asset: GivenAsset): boolean {
  return Boolean(asset.name.trim() || asset.description.trim() || asset.picture);
}

class Draft {
  text = $state(sessionStorage.getItem(KEY) ?? "");
  pictures = $state<GivenPicture[]>([]);
  assets = $state<GivenAsset[]>([]);

  set(words: string, pictures: GivenPicture[] = [], assets: GivenAsset[] = []): void {
    this.text = words;
    this.pictures = pictures;
    this.assets = assets;
    this.keep();
  }

  keep(): void {
    sessionStorage.setItem(KEY, this.text);
  }
}

export const draft = new Draft();

/** A file as a `data:` URL; raises an error where the browser cannot show it as a picture. */
export async function readPicture(file: File): Promise<GivenPicture> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(file.name));
    reader.readAsDataURL(file);
  });
  const image = new Image();
  image.src = url;
  await image.decode();
  return { url, name: file.name };
}
