/** The request that is being written: it survives a reload and a look at another page. */

const KEY = "interleave-draft";

export interface GivenPicture {
  url: string;
  name: string;
}

class Draft {
  text = $state(sessionStorage.getItem(KEY) ?? "");
  pictures = $state<GivenPicture[]>([]);

  set(words: string, pictures: GivenPicture[] = []): void {
    this.text = words;
    this.pictures = pictures;
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
